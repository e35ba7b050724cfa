package transport

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// rxLoop feeds packets made once, with only the PSN changed, to a responder,
// and drains what it answers in batches as a shell would.
type rxLoop struct {
	r     *rig
	bytes []byte
	rx    [1]RxPacket
	wr    RecvWR
	recv  bool // each packet uses a receive request
	wcs   [32]WC
	n     int
}

func newRxLoop(t testing.TB, op ib.Opcode, size int) *rxLoop {
	r := newRig(t, rigOpts{mtu: ib.MTU4096, rts: true, recvs: 64})
	p := pkt(op, rigPSN, pattern(size, 1))
	l := &rxLoop{r: r, recv: op == ib.RCSendOnly}
	switch op {
	case ib.RCWriteOnly:
		r.reth(0, size)(&p)
	case ib.RCReadRequest:
		p = pkt(op, rigPSN, nil)
		r.reth(0, size)(&p)
	case ib.RCFetchAdd:
		p = pkt(op, rigPSN, nil)
		r.atomic(8, 1, 0)(&p)
	}
	l.bytes = encode(nil, &p)
	l.rx[0] = RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, Data: l.bytes}
	l.wr = RecvWR{ID: 1, SGList: []SGE{{Addr: rigRecvVA, Length: 4096, LKey: r.recv.LKey()}}}
	return l
}

func (l *rxLoop) step() {
	r := l.r
	if l.recv {
		if err := r.qp.PostRecv(&l.wr); err != nil {
			r.t.Fatal(err)
		}
	}
	binary.BigEndian.PutUint32(l.bytes[8:], uint32(r.psn)|1<<31)
	r.psn = r.psn.Next()
	r.e.HandlePackets(r.now, l.rx[:]) // the guard for faults costs most for one
	if l.n++; l.n%16 == 0 {
		for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
		}
		r.cq.Poll(l.wcs[:])
	}
}

var rxOps = []struct {
	name string
	op   ib.Opcode
}{
	{"Send", ib.RCSendOnly}, {"Write", ib.RCWriteOnly}, {"Read", ib.RCReadRequest}, {"FetchAdd", ib.RCFetchAdd},
}

// BenchmarkReceive measures the receive side for a packet: decoding, checks,
// execution and its share of the answers, without the ICRC.
func BenchmarkReceive(b *testing.B) {
	for _, o := range rxOps {
		for _, size := range []int{64, 1024, 4096} {
			if o.op == ib.RCFetchAdd && size != 64 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", o.name, size), func(b *testing.B) {
				l := newRxLoop(b, o.op, size)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					l.step()
				}
			})
		}
	}
}

func TestReceiveDoesNotAllocate(t *testing.T) {
	for _, o := range rxOps {
		l := newRxLoop(t, o.op, 1024)
		for range 1000 {
			l.step()
		}
		require.Zero(t, testing.AllocsPerRun(1000, l.step), o.name)
		require.EqualValues(t, l.n, l.r.qp.resp.msn, "every packet was executed")
	}
}

// Nor do duplicates, gaps and missing receive requests.
func TestRefusalsDoNotAllocate(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
	r.send(ib.RCReadRequest, nil, r.reth(0, 700))
	var data [][]byte
	for _, p := range []ib.Packet{
		pkt(ib.RCFetchAdd, 100, nil), pkt(ib.RCReadRequest, 101, nil), pkt(ib.RCWriteMiddle, 99, pattern(256, 1)),
		pkt(ib.RCSendOnly, 104, nil), pkt(ib.RCSendOnly, 110, nil), pkt(ib.RCWriteOnly, 100, nil),
	} {
		r.reth(0, 700)(&p)
		data = append(data, encode(nil, &p))
	}
	rx := RxPacket{Src: rigOther, Dst: rigSelf}
	step := func() {
		for _, rx.Data = range data {
			r.e.HandlePacket(r.now, &rx)
		}
		for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
		}
		r.now += ms
		r.e.HandleTimeout(r.now)
	}
	for range 10 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(100, step))
	require.Equal(t, StateRTS, r.qp.State())
}
