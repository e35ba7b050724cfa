package transport

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

func ucRig(t *testing.T) *rig { return newRig(t, rigOpts{typ: ib.UC, rts: true}) }

func TestUC(t *testing.T) {
	r := ucRig(t)
	r.post(1, 600, 200)
	msg := pattern(600, 2)
	r.send(ib.UCSendFirst, msg[:256])
	r.send(ib.UCSendMiddle, msg[256:512])
	r.send(ib.UCSendLastImm, msg[512:], imm(9))
	r.send(ib.UCWriteFirst, msg[:256], r.reth(0, 300))
	r.post(2, 0, 1)
	r.send(ib.UCWriteLastImm, msg[256:300], imm(8))
	require.Equal(t, []WC{
		{ID: 1, Opcode: WCRecv, ByteLen: 600, QPN: rigQPN, Flags: WCWithImm, Imm: 9},
		{ID: 2, Opcode: WCRecvWriteImm, ByteLen: 300, QPN: rigQPN, Flags: WCWithImm, Imm: 8},
	}, r.wcs())
	require.Equal(t, msg, r.recv.Bytes()[:600])
	require.Equal(t, msg[:300], r.mem.Bytes()[:300])
	require.Empty(t, r.poll(), "UC acknowledges nothing")
}

// IBTA 9.8.2.2: a gap drops the rest of the message; its receive request serves the next one.
func TestUCGap(t *testing.T) {
	r := ucRig(t)
	r.post(1, 600, 600)
	msg := pattern(600, 2)
	r.send(ib.UCSendFirst, msg[:256])
	r.psn++ // the middle is lost
	r.send(ib.UCSendLast, msg[512:])
	require.Empty(t, r.wcs())
	require.EqualValues(t, 1, r.e.Counters().DropUCGap)
	r.send(ib.UCSendOnly, msg[:10])
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, ByteLen: 10, QPN: rigQPN}}, r.wcs())
}

// The message after one whose end is lost is received (rxe drops it too).
func TestUCLostLast(t *testing.T) {
	r := ucRig(t)
	r.post(1, 600, 600)
	msg := pattern(600, 2)
	r.send(ib.UCSendFirst, msg[:256])
	r.psn++
	r.send(ib.UCSendFirst, msg[:256])
	r.send(ib.UCSendLast, msg[256:300])
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, ByteLen: 300, QPN: rigQPN}}, r.wcs())
	// The end missing without a gap: the peer gave up on a message.
	r.post(2, 600, 600)
	r.send(ib.UCSendFirst, msg[:256])
	r.send(ib.UCWriteOnly, msg[:4], r.reth(0, 4))
	r.send(ib.UCSendOnly, msg[:5])
	require.Equal(t, []WC{{ID: 2, Opcode: WCRecv, ByteLen: 5, QPN: rigQPN}}, r.wcs())
	require.Equal(t, msg[:4], r.mem.Bytes()[:4])
}

func TestUCDrops(t *testing.T) {
	r := ucRig(t)
	msg := pattern(300, 2)
	before := string(r.raw)
	r.send(ib.UCSendOnly, msg[:8]) // nothing posted
	r.send(ib.UCSendFirst, msg[:256])
	r.send(ib.UCSendLast, msg[256:])
	require.EqualValues(t, 2, r.e.Counters().DropNoRecv)
	require.EqualValues(t, 1, r.e.Counters().DropUCGap)
	r.post(1, 100, 100)
	r.send(ib.UCSendOnly, msg[:101]) // too long
	require.EqualValues(t, 3, r.e.Counters().DropNoRecv)
	r.send(ib.UCWriteOnly, msg[:8], r.reth(rigLen-7, 8))
	r.send(ib.UCWriteOnly, msg[:8], r.reth(0, 8), func(p *ib.Packet) { p.RETH.RKey++ })
	require.EqualValues(t, 2, r.e.Counters().DropAccess)
	r.send(ib.UCWriteOnly, msg[:8], r.reth(0, 9))
	r.send(ib.UCWriteFirst, msg[:255], r.reth(0, 300))
	require.EqualValues(t, 2, r.e.Counters().DropMalformed)
	require.Empty(t, r.wcs())
	require.Empty(t, r.poll())
	require.Equal(t, before, string(r.raw))
	require.Equal(t, StateRTS, r.qp.State(), "a peer's fault does not end a UC QP")
	r.send(ib.UCSendOnly, msg[:100])
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, ByteLen: 100, QPN: rigQPN}}, r.wcs())
}

// What is wrong with the local queue does end it.
func TestUCBadBuffers(t *testing.T) {
	r := ucRig(t)
	r.post(1, 100, 100)
	r.post(2, 100, 100)
	require.NoError(t, r.recv.Deregister(nil))
	r.send(ib.UCSendOnly, []byte{1})
	wcs := r.wcs()
	require.Equal(t, WCLocalProtErr, wcs[0].Status)
	require.Equal(t, WCFlushErr, wcs[1].Status)
	require.Equal(t, StateErr, r.qp.State())
}

// A SEND without data touches no buffer, and completes whatever their keys are, as on rxe.
func TestUCBuffersOfNothing(t *testing.T) {
	r := ucRig(t)
	r.post(1, 100, 100)
	require.NoError(t, r.recv.Deregister(nil))
	r.send(ib.UCSendOnly, nil)
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, QPN: rigQPN}}, r.wcs())
	require.Equal(t, StateRTS, r.qp.State())
}

// A held receive request is flushed once and not lost.
func TestUCHeldRequestFlushed(t *testing.T) {
	r := ucRig(t)
	r.post(1, 600, 600)
	r.post(2, 600, 600)
	r.send(ib.UCSendFirst, pattern(256, 1))
	r.send(ib.UCSendLast, pattern(6, 1), at(200))
	require.NoError(t, r.qp.Modify(r.now, QPAttr{State: StateErr}, AttrState))
	wcs := r.wcs()
	require.Len(t, wcs, 2)
	for i, wc := range wcs {
		require.EqualValues(t, i+1, wc.ID)
		require.Equal(t, WCFlushErr, wc.Status)
	}
}

// IBTA 9.9.3, class E: a receive request of an SRQ that is too small is
// reported, because it is not this QP's to keep; the QP goes on.
func TestUCTooLongWithSRQ(t *testing.T) {
	r := newRig(t, rigOpts{typ: ib.UC, rts: true, srq: true})
	r.post(1, 100, 100)
	r.post(2, 200, 200)
	r.send(ib.UCSendOnly, pattern(150, 1))
	r.send(ib.UCSendOnly, pattern(150, 1))
	wcs := r.wcs()
	require.Len(t, wcs, 2)
	require.Equal(t, WC{ID: 1, Status: WCLocalLenErr, QPN: rigQPN}, wcs[0])
	require.Equal(t, WC{ID: 2, Opcode: WCRecv, ByteLen: 150, QPN: rigQPN}, wcs[1])
	require.Equal(t, StateRTS, r.qp.State())
}

// What UC delivers, told without any state: a message, each time that all of
// its packets arrive one right after the other.
func TestUCAgainstModel(t *testing.T) {
	seeds.Run(t, seeds.Fewer(60), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := newRig(t, rigOpts{typ: ib.UC, rts: true, psn: ib.PSNMask - 30, recvs: 1 << 10, cqe: 1 << 10})
		for id := range uint64(900) {
			r.post(id, 1024, 1024)
		}
		// The stream: packet i has the PSN psn+i. msgs[i] is the length of the
		// message that starts at packet i, in packets.
		var stream []ib.Packet
		msgs := map[int]int{}
		bodies := map[int][]byte{}
		for len(stream) < 150 {
			first := len(stream)
			body := pattern([]int{0, 8, 256, 257, 700, 1024}[rng.IntN(6)], byte(first))
			n := max(1, (len(body)+255)/256)
			write := rng.IntN(2) == 0
			for i := range n {
				op := []ib.Opcode{ib.UCSendMiddle, ib.UCSendFirst, ib.UCSendLastImm, ib.UCSendOnlyImm}
				if write {
					op = []ib.Opcode{ib.UCWriteMiddle, ib.UCWriteFirst, ib.UCWriteLastImm, ib.UCWriteOnlyImm}
				}
				k := 0
				if i == 0 {
					k |= 1
				}
				if i == n-1 {
					k |= 2
				}
				p := pkt(op[k], r.psn.Add(len(stream)), body[i*256:min(len(body), (i+1)*256)])
				p.ImmDt = uint32(first)
				r.reth(0, len(body))(&p)
				stream = append(stream, p)
			}
			msgs[first], bodies[first] = n, body
		}
		// The wire: mostly in order, some lost, doubled or late.
		var arrivals []int
		for i := 0; i < len(stream); i++ {
			switch rng.IntN(12) {
			case 0:
			case 1:
				arrivals = append(arrivals, i, i)
			case 2:
				arrivals = append(arrivals, rng.IntN(len(stream)), i)
			default:
				arrivals = append(arrivals, i)
			}
		}
		var want, got []string
		for k, i := range arrivals {
			n := msgs[i]
			ok := n > 0 && k+n <= len(arrivals)
			for j := 0; ok && j < n; j++ {
				ok = arrivals[k+j] == i+j
			}
			if ok {
				want = append(want, fmt.Sprint(i, len(bodies[i])))
			}
		}
		for _, i := range arrivals {
			r.rx(&stream[i])
			for _, wc := range r.wcs() {
				got = append(got, fmt.Sprint(wc.Imm, wc.ByteLen))
				where := r.recv.Bytes()
				if wc.Opcode == WCRecvWriteImm {
					where = r.mem.Bytes()
				}
				require.Equal(t, bodies[int(wc.Imm)], append([]byte{}, where[:wc.ByteLen]...))
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
		require.NotEmpty(t, got)
		r.canaries()
	})
}
