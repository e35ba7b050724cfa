package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// marked delivers a WRITE of nothing that went through a congested queue.
func (r *rig) marked() {
	p := pkt(ib.RCWriteOnly, r.psn, nil)
	p.AckReq = false
	r.psn = r.psn.Next()
	r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf, TrafficClass: ECNCE})
}

// L5: one CNP for marked packets within a gap.
func TestCNPSent(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.marked()
	r.marked()
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:]))
	tx := &r.tx[0]
	var p ib.Packet
	require.Equal(t, ib.DecodeOK, p.Decode(append(tx.AppendTo(nil), 0, 0, 0, 0)))
	require.Equal(t, ib.NewCNP(rigPeer).BTH, p.BTH)
	require.Equal(t, 32, tx.UDPPayloadLen())
	require.EqualValues(t, 48, tx.Path.TrafficClass>>2)
	require.Equal(t, rigOther, tx.Path.Dst)
	tx.Path.Link = "kept" // as long as the path is the same

	r.now += DefaultCNPGapNs - 1
	r.marked()
	require.Zero(t, r.e.PollTransmit(r.now, r.tx[:]))
	r.now++
	r.marked()
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:]))
	require.Equal(t, "kept", r.tx[0].Path.Link)
	require.Nil(t, r.qp.path.Link)
	c := r.e.Counters()
	require.EqualValues(t, 4, c.CEMarkedPkts)
	require.EqualValues(t, 2, c.CNPsSent)

	r.now += DefaultCNPGapNs
	r.qp.path.SrcPort++ // the application gave another address vector
	r.marked()
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:]))
	require.Nil(t, r.tx[0].Path.Link)
	require.Equal(t, r.qp.path.SrcPort, r.tx[0].Path.SrcPort)
}

// A CNP that is marked itself is not answered with a CNP, however short the gap:
// two peers would notify each other of notifications for ever.
func TestCNPMarked(t *testing.T) {
	r := newRig(t, rigOpts{rts: true, tuning: Tuning{CNPGap: 1}})
	p := ib.NewCNP(rigQPN)
	for range 3 {
		r.now += 10
		r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf, TrafficClass: ECNCE})
		require.Empty(t, r.poll())
	}
	c := r.e.Counters()
	require.EqualValues(t, 3, c.CEMarkedPkts)
	require.EqualValues(t, 3, c.CNPsHandled)
	require.Zero(t, c.CNPsSent)
	r.marked()
	r.want("CNP")
}

// Marks on packets that are not taken: of any PSN, and copies of one that was.
func TestCNPForged(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.marked()
	r.want("CNP")
	for i := range ib.PSN(20_000) {
		r.now += DefaultCNPGapNs
		for _, p := range []ib.Packet{pkt(ib.RCWriteOnly, r.psn+1+i*800, nil),
			pkt(ib.RCWriteOnly, r.psn-1, nil), pkt(ib.RCAcknowledge, i*800, nil)} {
			p.PSN &= ib.PSNMask
			r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf, TrafficClass: ECNCE})
		}
	}
	r.poll()
	require.EqualValues(t, 1, r.e.Counters().CNPsSent)
	r.marked()
	r.want("CNP")
}

func TestCNPOff(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{CNPGap: -1}})
	r.marked()
	require.Empty(t, r.poll())
	require.EqualValues(t, 1, r.e.Counters().CEMarkedPkts)
}

// A CNP flood costs a counter.
func TestCNPReceived(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	p := ib.NewCNP(rigQPN)
	for range 3 {
		r.rx(&p)
	}
	require.EqualValues(t, 3, r.e.Counters().CNPsHandled)
	require.Empty(t, r.poll())
	require.Equal(t, StateRTS, r.qp.State())
}
