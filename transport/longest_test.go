//go:build unix && (amd64 || arm64)

package transport_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// The longest message, 2^31 bytes, both ways, on memory that is mapped but
// never touched: the engine sends slices of it.
func TestLongestMessage(t *testing.T) {
	big, err := syscall.Mmap(-1, 0, 1<<31, syscall.PROT_READ,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("no address space of 2 GiB: %v", err)
	}
	defer func() { require.NoError(t, syscall.Munmap(big)) }()
	d := newPuppet(t, pairConfig{mtu: ib.MTU4096},
		linkConfig{attr: func(l *link, a *transport.QPAttr) { a.PathMTU = ib.MTU4096 }})
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
		SGList: []transport.SGE{{Addr: r.IOVA(), Length: 1 << 31, LKey: r.LKey()}, {Addr: r.IOVA(), Length: 1,
			LKey: r.LKey()}}})
	require.ErrorIs(t, err, transport.ErrMessageTooLong)
}
