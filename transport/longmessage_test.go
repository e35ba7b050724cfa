//go:build unix && (amd64 || arm64)

package transport

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// A message of 2^31 bytes at the smallest MTU takes 2^23 PSNs, half of the
// number space. The list names the same memory many times over, and the peer
// is played: every offset, PSN and position is checked, no byte is carried.
func TestTwoGiB(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of packets in each direction")
	}
	seeds.Long(t)
	const total = 1 << 31
	const pathMTU = ib.MTU256
	mtu := pathMTU.Bytes()
	newPeer := func(t *testing.T) (*script, SendWR) {
		s := newScript(t, loopOptions{
			mtu: pathMTU, data: total / 32, cqe: 4,
			caps: QPCaps{MaxSendWR: 4, MaxSendSGE: 32, MaxRecvWR: 1, MaxRecvSGE: 1},
		})
		wr := SendWR{Flags: SendSignaled, RemoteAddr: 0x1000}
		for range 32 {
			wr.SGList = append(wr.SGList, s.a.at(0, total/32))
		}
		return s, wr
	}
	packets := total / mtu
	t.Run("WRITE", func(t *testing.T) {
		s, wr := newPeer(t)
		wr.Opcode = WRWrite
		require.NoError(t, s.a.qp.PostSend(s.now, &wr))
		sent := 0
		for {
			n := s.a.e.PollTransmit(s.now, s.batch)
			if n == 0 {
				break
			}
			for i := range s.batch[:n] {
				tx := &s.batch[i]
				op, psn := tx.OpcodeAndPSN()
				want := ib.RCWriteMiddle
				switch sent {
				case 0:
					want = ib.RCWriteFirst
					require.EqualValues(t, uint32(total), binary.BigEndian.Uint32(tx.Header[24:]))
				case packets - 1:
					want = ib.RCWriteLast
				}
				at := sent * mtu % (total / 32)
				if op != want || psn != s.psn0.Add(sent) || int(tx.PayloadLen) != mtu ||
					&tx.Frags[0][0] != &s.a.data[at] {
					t.Fatalf("packet %d: %v %v", sent, op, psn)
				}
				sent++
			}
			s.ack(sent - 1)
		}
		require.Equal(t, packets, sent)
		s.done("0 success")
		require.Equal(t, s.psn0.Add(packets), s.a.qp.sq.nextPSN())
		require.Zero(t, s.a.e.Counters().RetransmittedPkts)
	})
	t.Run("READ", func(t *testing.T) {
		s, wr := newPeer(t)
		wr.Opcode = WRRead
		require.NoError(t, s.a.qp.PostSend(s.now, &wr))
		asked, got := 0, 0
		payload := make([]byte, mtu)
		resp := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRespMiddle, PKey: ib.PKeyDefault, DestQP: s.a.qp.Number()},
			Payload: payload}
		resp.AETH.Syndrome = ib.ACKNoCredits
		var b []byte
		for got < packets {
			n := s.a.e.PollTransmit(s.now, s.batch)
			for i := range s.batch[:n] {
				h := s.batch[i].Headers()
				_, psn := s.batch[i].OpcodeAndPSN()
				require.Equal(t, s.psn0.Add(asked), psn)
				require.EqualValues(t, 0x1000+asked*mtu, binary.BigEndian.Uint64(h[12:]))
				asked += int(binary.BigEndian.Uint32(h[24:])) / mtu
			}
			require.Greater(t, asked, got, "stuck")
			for ; got < asked; got++ {
				resp.PSN = s.psn0.Add(got)
				if got == packets-1 {
					resp.Opcode = ib.RCReadRespLast
				}
				b = b[:cap(b)]
				if len(b) == 0 {
					b = make([]byte, ib.MaxPacketBytes)
				}
				h := resp.PutHeaders(b)
				b = b[:h+mtu+ib.ICRCBytes]
				s.a.e.HandlePacket(s.now, &RxPacket{Src: s.b.addr, Dst: s.a.addr, Data: b})
			}
		}
		s.done("0 success")
	})
}
