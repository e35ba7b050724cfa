package transport_test

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Every operation, at the sizes where something changes, at every path MTU,
// with PSNs that wrap on the way.
func TestSizes(t *testing.T) {
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("mtu=%v,v6=%v", mtu, v6), func(t *testing.T) {
				p := newPair(t, pairConfig{mtu: ib.MTU4096, v6: v6})
				p.logging = false
				a, b := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) {
					at.PathMTU = mtu
					at.SQPSN = 0xfffff0
					at.RQPSN = 0xfffff0
				}})
				m := mtu.Bytes()
				sizes := []int{0, 1, m - 1, m, m + 1, 2 * m, 3*m + 2, 129*m + 1, 255, 256, 257, 1023, 1024, 1025, 4096, 65536}
				if mtu == ib.MTU1024 {
					sizes = append(sizes, bufBytes/2)
				}
				for i, n := range sizes {
					if n > bufBytes/2 {
						continue
					}
					const to = bufBytes / 2
					same := func(x, y []byte, what string) {
						require.True(t, bytes.Equal(x, y), "%s of %d bytes", what, n)
						require.Equal(t, []int{1, 0}, []int{len(a.poll()), len(a.poll())}, "%s of %d bytes", what, n)
					}
					src := a.fill(0, n, uint64(i))
					a.post(a.write(0, to, n))
					p.run()
					same(src, b.buf[to:to+n], "WRITE")
					a.fill(0, n, uint64(100+i))
					b.recv(1, 0, n)
					a.post(a.send(0, n))
					p.run()
					same(src, b.buf[:n], "SEND")
					require.EqualValues(t, n, b.poll()[0].ByteLen)
					a.post(a.read(to, to, n))
					p.run()
					same(a.buf[to:to+n], b.buf[to:to+n], "READ")
				}
				c := a.eng.Counters()
				require.Zero(t, c.RetransmittedPkts+c.Timeouts)
			})
		}
	}
}

// The longest message, 2^31 bytes, both ways, on memory that is mapped but
// never touched: the engine sends slices of it.
func TestLongestMessage(t *testing.T) {
	big, err := syscall.Mmap(-1, 0, 1<<31, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("no address space of 2 GiB: %v", err)
	}
	defer func() { require.NoError(t, syscall.Munmap(big)) }()
	d := newPuppet(t, pairConfig{mtu: ib.MTU4096}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.PathMTU = ib.MTU4096 }})
	r, err := d.a.mem.Register(d.a.pd, mem.RegionAttr{Bytes: big, IOVA: 1 << 20, IOVASet: true, Access: mem.RemoteRead})
	require.NoError(t, err)
	const packets = 1 << 31 / 4096
	batch := make([]transport.TxPacket, 64)
	// collect takes packets until there are none, and returns how many payload
	// bytes they had and the PSN of the last one.
	collect := func(wantOp func(i int) ib.Opcode, answer bool) {
		seen, bytes := 0, 0
		var last []byte
		for n := d.a.eng.PollTransmit(d.now, batch); n > 0; n = d.a.eng.PollTransmit(d.now, batch) {
			for i := range batch[:n] {
				tx := &batch[i]
				if op := ib.Opcode(tx.Header[0]); op != wantOp(seen) {
					t.Fatalf("packet %d is %v", seen, op)
				}
				for _, f := range tx.Frags[:tx.NumFrags] {
					bytes += len(f)
				}
				seen++
				last = tx.Header[:ib.BTHBytes]
			}
			if answer {
				ack := d.packet(ib.RCAcknowledge, 0, nil)
				copy(ack[9:12], last[9:12])
				d.a.eng.HandlePacket(d.now, &transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, Data: ack})
			}
		}
		require.Equal(t, packets, seen)
		require.Equal(t, 1<<31, bytes)
	}
	position := func(first, middle, last ib.Opcode) func(int) ib.Opcode {
		return func(i int) ib.Opcode {
			switch i {
			case 0:
				return first
			case packets - 1:
				return last
			}
			return middle
		}
	}
	d.a.post(transport.SendWR{Opcode: transport.WRWrite, RemoteAddr: 1 << 30, RKey: 5,
		SGList: []transport.SGE{{Addr: r.IOVA(), Length: 1 << 31, LKey: r.LKey()}}})
	collect(position(ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLast), true)
	require.EqualValues(t, uint32(1<<31), d.a.wantWC("1 success")[0].ByteLen)

	d.a.eng.HandlePacket(d.now, &transport.RxPacket{Src: d.b.addr, Dst: d.a.addr,
		Data: d.packet(ib.RCReadRequest, 0, nil, reth(r.IOVA(), r.RKey(), 1<<31))})
	collect(position(ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast), false)

	_, err = d.a.tryPost(transport.SendWR{Opcode: transport.WRWrite,
		SGList: []transport.SGE{{Addr: r.IOVA(), Length: 1 << 31, LKey: r.LKey()}, {Addr: r.IOVA(), Length: 1, LKey: r.LKey()}}})
	require.ErrorIs(t, err, transport.ErrMessageTooLong)
}
