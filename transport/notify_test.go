package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// Notifications and asynchronous events, provoked by packets.

func TestNotifySolicited(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	for i := range 4 {
		b.recv(uint64(i), 64*i, 64)
	}
	b.cq.Arm(true)
	a.post(a.send(0, 8))
	p.run()
	b.wantEvents()
	a.post(with(a.send(0, 8), func(wr *transport.SendWR) { wr.Flags |= transport.SendSolicited }))
	p.run()
	b.wantEvents(transport.EventCompletion)
	a.post(with(a.send(0, 8), func(wr *transport.SendWR) { wr.Flags |= transport.SendSolicited }))
	p.run()
	b.wantEvents() // armed once, told once
	b.cq.Arm(false)
	a.post(a.send(0, 8))
	p.run()
	b.wantEvents(transport.EventCompletion)
	require.Len(t, b.poll(), 4)
}

// The first packet for a QP in RTR establishes the connection (it may come
// before the last message of the connection manager).
func TestNotifyCommEstablished(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{until: transport.StateRTR})
	for _, l := range []*link{a} {
		at := l.attr
		at.State = transport.StateRTS
		require.NoError(t, l.qp.Modify(p.now, at, transport.AttrState|transport.AttrSQPSN|transport.AttrTimeout|
			transport.AttrRetryCnt|transport.AttrRNRRetry|transport.AttrMaxRdAtomic))
	}
	a.post(a.write(0, 0, 8))
	a.post(a.write(0, 0, 8))
	p.run()
	a.wantWC("1 success", "2 success")
	b.wantEvents(transport.EventCommEstablished)
}

// A QP that is not ready for requests, or for responses, does not see them.
func TestPacketsInEarlyStates(t *testing.T) {
	for _, s := range []transport.QPState{transport.StateReset, transport.StateInit} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
		if s == transport.StateInit {
			d.a.bringUp(s)
		}
		d.send(ib.RCWriteOnly, 0, []byte("early"))
		d.send(ib.RCAcknowledge, 0, nil)
		d.want("")
		require.EqualValues(t, 2, d.a.eng.Counters().DropState)
		_, err := d.a.tryPost(d.a.write(0, 0, 8))
		require.ErrorIs(t, err, transport.ErrInvalidState)
	}
	d := newPuppet(t, pairConfig{}, linkConfig{until: transport.StateRTR})
	d.send(ib.RCAcknowledge, 0, nil)
	require.EqualValues(t, 1, d.a.eng.Counters().DropState)
	d.send(ib.RCWriteOnly, 0, []byte("in RTR"))
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	_, err := d.a.tryPost(d.a.write(0, 0, 8))
	require.ErrorIs(t, err, transport.ErrInvalidState)
}

// An SRQ that two QPs receive from, its limit, and the end of one of them.
func TestNotifySRQ(t *testing.T) {
	p := newPair(t, pairConfig{})
	srq, err := p.ends[1].eng.CreateSRQ(p.ends[1].pd, transport.SRQAttr{MaxWR: 8, MaxSGE: 1}, nil)
	require.NoError(t, err)
	lc := linkConfig{srq: [2]*transport.SRQ{nil, srq}}
	a1, b1 := p.connect(lc)
	a2, b2 := p.connect(lc)
	for i := range 4 {
		require.NoError(t, srq.PostRecv(&transport.RecvWR{ID: uint64(i), SGList: []transport.SGE{b1.sge(64*i, 64)}}))
	}
	require.NoError(t, srq.Modify(3, -1))
	for i, l := range []*link{a1, a2, a1} {
		l.nextID = uint64(10 * i)
		l.post(l.send(0, 8))
		p.run()
	}
	wcs := b1.wantWC("0 success", "1 success", "2 success")
	require.Equal(t, []ib.QPN{b1.qp.Number(), b2.qp.Number(), b1.qp.Number()},
		[]ib.QPN{wcs[0].QPN, wcs[1].QPN, wcs[2].QPN})
	b1.wantEvents(transport.EventSRQLimitReached)
	require.Zero(t, srq.Query().Limit)
	// A message that was begun is flushed, what is posted stays for the others.
	p.lose(func(f *flight) bool { return f.pkt.Opcode == ib.RCSendLast })
	require.NoError(t, srq.PostRecv(&transport.RecvWR{ID: 4, SGList: []transport.SGE{b1.sge(0x1000, 4096)}}))
	a2.post(a2.send(0, 8))
	p.settle()
	a1.post(a1.send(0, 2000))
	p.settle()
	require.NoError(t, b1.qp.Modify(p.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState))
	b1.wantWC("3 success", "4 Work Request Flushed Error")
	b1.wantEvents(transport.EventLastWQEReached)
	p.onSend = nil
	require.NoError(t, srq.PostRecv(&transport.RecvWR{ID: 5, SGList: []transport.SGE{b1.sge(0, 64)}}))
	a2.post(a2.send(0, 8))
	p.run()
	b1.wantWC("5 success")
}

// A receive CQ that overflows ends the QP; the peer learns it by its timeout.
func TestNotifyCQOverflow(t *testing.T) {
	p := newPair(t, pairConfig{cqe: 2})
	a, b := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) { at.RetryCnt = 1 }})
	for i := range 3 {
		b.recv(uint64(i), 64*i, 64)
		wr := a.send(0, 8)
		wr.ID = uint64(i)
		require.NoError(t, a.qp.PostSend(p.now, &wr))
	}
	p.run()
	require.Equal(t, transport.StateErr, b.qp.State())
	b.wantEvents(transport.EventCQError, transport.EventQPFatal)
	b.wantWC("0 success", "1 success")
	b.checkGuards()
}

// UD: wrong Q_Key, no receive, receive too small: dropped, and counted, and the QP goes on.
func TestDatagramDrops(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{typ: ib.UD})
	d.send(ib.UDSendOnly, 0, []byte("no receive"))
	require.EqualValues(t, 1, d.a.eng.Counters().DropNoRecv)
	d.a.recv(1, 0, 49)
	d.send(ib.UDSendOnly, 1, []byte("ten bytes."))
	require.EqualValues(t, 2, d.a.eng.Counters().DropNoRecv, "40 + 10 do not fit")
	d.send(ib.UDSendOnly, 2, []byte("wrong key"), func(p *ib.Packet) { p.DETH.QKey++ })
	require.EqualValues(t, 1, d.a.eng.Counters().DropQKey)
	// The receive that was too small stays for what fits, as on rxe.
	d.send(ib.UDSendOnly, 7, []byte("9 bytes.."))
	wcs := d.a.wantWC("1 success")
	require.EqualValues(t, 49, wcs[0].ByteLen)
	require.Equal(t, puppetQPN, wcs[0].SrcQP)
	d.wantState(transport.StateRTS)
}
