package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// postSend posts a SEND of n bytes, which is a packet.
func (r *rig) postSend(n int) {
	require.NoError(r.t, r.qp.PostSend(r.now, &SendWR{
		Opcode: WRSend, SGList: []SGE{{Addr: rigRecvVA, Length: uint32(n), LKey: r.recv.LKey()}},
	}))
}

// An ACK leaves behind the requests of its turn, everything else before them.
func TestBareAckBehindRequests(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.post(1, 100, 100)
	r.send(ib.RCSendOnly, pattern(33, 1))
	r.postSend(64)
	r.postSend(64)
	got := r.poll()
	require.Len(t, got, 3)
	require.Contains(t, got[0], "SEND")
	require.Contains(t, got[1], "SEND")
	require.Equal(t, "ACK 100 msn 1", got[2])

	r.send(ib.RCReadRequest, nil, r.reth(0, 10))
	r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3))
	r.postSend(64)
	got = r.poll()
	require.Len(t, got, 3)
	require.Equal(t, "ONLY 101 msn 2 [10]", got[0])
	require.Equal(t, "ACK 102 msn 3", got[1])
	require.Contains(t, got[2], "SEND")
}

// A turn that requests would fill has room for the ACK.
func TestBareAckHasRoom(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3))
	for range 4 {
		r.postSend(64)
	}
	require.Equal(t, 2, r.e.PollTransmit(r.now, r.tx[:2]))
	require.Equal(t, byte(ib.RCSendOnly), r.tx[0].Header[0])
	require.Equal(t, byte(ib.RCAcknowledge), r.tx[1].Header[0])
	require.Len(t, r.pollN(2), 3)
	// Of one packet there is room for the ACK only.
	r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3))
	require.Equal(t, []string{"ACK 101 msn 2"}, r.pollN(1))
}

func TestOnlyAcks(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	require.False(t, r.e.OnlyAcks(), "nothing at all")
	write := func() { r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3)) }
	write()
	require.True(t, r.e.OnlyAcks())
	r.postSend(64)
	require.False(t, r.e.OnlyAcks(), "a request")
	r.poll()
	require.False(t, r.e.OnlyAcks())
	write()
	r.send(ib.RCReadRequest, nil, r.reth(0, 10))
	require.False(t, r.e.OnlyAcks(), "an answer")
	r.poll()
	write()
	r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3), at(r.psn+5))
	require.False(t, r.e.OnlyAcks(), "a NAK")
}

// An ACK behind requests of its datagram is heard before them: what a program has sent is complete
// before the answer to it comes.
func TestAckBehindRequestsIsHeardFirst(t *testing.T) {
	for _, requests := range []int{1, 2, 3} {
		r := newRig(t, rigOpts{rts: true})
		require.NoError(t, r.qp.PostSend(r.now, &SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{
			{Addr: rigRecvVA, Length: 64, LKey: r.recv.LKey()},
		}}))
		r.poll()
		var batch []RxPacket
		add := func(p ib.Packet) {
			batch = append(batch,
				RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, InRun: true, Data: encode(nil, &p)})
		}
		for i := range requests {
			r.post(uint64(i), 100, 100)
			add(pkt(ib.RCSendOnly, ib.PSN(rigPSN+i), pattern(64, 1)))
		}
		ack := pkt(ib.RCAcknowledge, r.qp.attr.SQPSN, nil)
		ack.AckReq, ack.AETH = false, ib.AETH{Syndrome: ib.ACKCredit(31), MSN: 1}
		add(ack)
		r.e.HandlePackets(r.now, batch)
		wcs := r.wcs()
		require.Len(t, wcs, requests+1)
		require.Equal(t, WCSend, wcs[0].Opcode)
		require.EqualValues(t, requests+1, r.e.Counters().RcvdPkts, "each is heard once")
	}
}
