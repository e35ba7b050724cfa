package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

func TestPostSendRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		typ  ib.Transport
		edit func(*loop, *SendWR)
		want error
	}{
		"no opcode":       {ib.RC, func(_ *loop, wr *SendWR) { wr.Opcode = numWROpcodes }, ErrInvalidOpcode},
		"READ on UC":      {ib.UC, func(_ *loop, wr *SendWR) { wr.Opcode = WRRead }, ErrInvalidOpcode},
		"INV on UC":       {ib.UC, func(_ *loop, wr *SendWR) { wr.Opcode = WRSendInv }, ErrInvalidOpcode},
		"WRITE on UD":     {ib.UD, func(_ *loop, wr *SendWR) { wr.Opcode = WRWrite }, ErrInvalidOpcode},
		"LOCAL_INV on UD": {ib.UD, func(_ *loop, wr *SendWR) { wr.Opcode = WRLocalInv }, ErrInvalidOpcode},
		"flags":           {ib.RC, func(_ *loop, wr *SendWR) { wr.Flags = 0x40 }, ErrInvalidAttr},
		"SGEs":            {ib.RC, func(_ *loop, wr *SendWR) { wr.SGList = make([]SGE, 5) }, ErrTooManySGE},
		"2 GiB + 1": {ib.RC, func(_ *loop, wr *SendWR) {
			wr.SGList = []SGE{{Length: 1 << 31}, {Length: 1}}
		}, ErrMessageTooLong},
		"16 GiB": {ib.RC, func(_ *loop, wr *SendWR) {
			wr.SGList = []SGE{{Length: 1<<32 - 1}, {Length: 1<<32 - 1}, {Length: 1<<32 - 1}, {Length: 4}}
		}, ErrMessageTooLong},
		"inline": {ib.RC, func(_ *loop, wr *SendWR) { wr.Flags, wr.Inline = SendInline, make([]byte, 65) },
			ErrInlineTooLarge},
		"inline list": {ib.RC, func(l *loop, wr *SendWR) {
			wr.Flags, wr.SGList = SendInline, []SGE{l.a.at(0, 60), l.a.at(0, 5)}
		}, ErrInlineTooLarge},
		"inline key": {ib.RC,
			func(_ *loop, wr *SendWR) { wr.Flags, wr.SGList[0].LKey = SendInline, 1 }, mem.FaultKey},
		"inline READ": {ib.RC, func(_ *loop, wr *SendWR) { wr.Opcode, wr.Flags = WRRead, SendInline },
			ErrInvalidAttr},
		"atomic of 4": {ib.RC,
			func(_ *loop, wr *SendWR) { wr.Opcode, wr.SGList[0].Length = WRFetchAdd, 4 }, ErrInvalidAttr},
		"atomic write 16": {ib.RC,
			func(_ *loop, wr *SendWR) { wr.Opcode, wr.SGList[0].Length = WRAtomicWrite, 16 }, ErrInvalidAttr},
		"flush type": {ib.RC,
			func(_ *loop, wr *SendWR) { wr.Opcode, wr.FlushType = WRFlush, ib.FlushMR }, ErrInvalidAttr},
		"flush bits": {ib.RC, func(_ *loop, wr *SendWR) { wr.Opcode, wr.FlushType = WRFlush, 0x101 },
			ErrInvalidAttr},
		"no AH":        {ib.UD, func(_ *loop, wr *SendWR) { wr.AH = nil }, ErrInvalidAttr},
		"destroyed AH": {ib.UD, func(_ *loop, wr *SendWR) { _ = wr.AH.Destroy() }, ErrDestroyed},
		"AH of another PD": {ib.UD, func(l *loop, wr *SendWR) {
			pd, _ := l.a.mem.AllocPD()
			wr.AH, _ = l.a.e.CreateAH(pd, AddressVector{DGID: ib.GIDFromAddr(l.b.addr)})
		}, ErrInvalidAttr},
		"QPN":       {ib.UD, func(_ *loop, wr *SendWR) { wr.RemoteQPN = 1 << 24 }, ErrInvalidAttr},
		"datagram":  {ib.UD, func(_ *loop, wr *SendWR) { wr.SGList[0].Length = 4097 }, ErrMessageTooLong},
		"reset":     {ib.RC, func(l *loop, _ *SendWR) { l.a.qp.state = StateReset }, ErrInvalidState},
		"init":      {ib.RC, func(l *loop, _ *SendWR) { l.a.qp.state = StateInit }, ErrInvalidState},
		"RTR":       {ib.RC, func(l *loop, _ *SendWR) { l.a.qp.state = StateRTR }, ErrInvalidState},
		"destroyed": {ib.RC, func(l *loop, _ *SendWR) { _ = l.a.qp.Destroy() }, ErrDestroyed},
		"full": {ib.RC, func(l *loop, wr *SendWR) {
			for range l.a.qp.caps.MaxSendWR {
				require.NoError(l.t, l.a.qp.PostSend(l.now, wr))
			}
		}, ErrQueueFull},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loopOptions{typ: c.typ})
			wr := SendWR{SGList: []SGE{l.a.at(0, 8)}, RemoteQPN: 77}
			if c.typ == ib.UD {
				var err error
				wr.AH, err = l.a.e.CreateAH(l.a.pd, AddressVector{DGID: ib.GIDFromAddr(l.b.addr)})
				require.NoError(t, err)
			}
			c.edit(l, &wr)
			queued := l.a.qp.sq.q.len()
			require.ErrorIs(t, l.a.qp.PostSend(l.now, &wr), c.want)
			require.Equal(t, queued, l.a.qp.sq.q.len(), "nothing was queued")
		})
	}
}

// The ring grows while requests of every kind are in it.
func TestSendQueueGrows(t *testing.T) {
	l := newLoop(t,
		loopOptions{caps: QPCaps{MaxSendWR: 100, MaxRecvWR: 100, MaxSendSGE: 3, MaxRecvSGE: 1, MaxInline: 16}})
	fill(l.a.data[:4096], 5)
	post := func(i int) {
		wr := SendWR{ID: uint64(i), Opcode: WRSend, Flags: SendSignaled}
		if i%2 == 0 {
			wr.Flags |= SendInline
			wr.Inline = l.a.data[i : i+10]
		} else {
			wr.SGList = []SGE{l.a.at(i, 3), l.a.at(i+3, 0), l.a.at(i+3, 7)}
		}
		require.NoError(t, l.a.qp.PostSend(l.now, &wr))
		require.NoError(t, l.b.qp.PostRecv(&RecvWR{ID: uint64(i), SGList: []SGE{l.b.at(i*16, 16)}}))
	}
	for i := range 10 { // move head away from slot 0
		post(i)
	}
	l.run()
	for i := 10; i < 110; i++ {
		post(i)
	}
	require.ErrorIs(t, l.a.qp.PostSend(l.now, &SendWR{}), ErrQueueFull)
	l.run()
	wcs := completions(l.a.scq)
	require.Len(t, wcs, 110)
	for i, wc := range wcs {
		require.EqualValues(t, i, wc.ID)
		require.Equal(t, WCSuccess, wc.Status)
		require.Equal(t, l.a.data[i:i+10], l.b.data[i*16:][:10])
	}
}

// Inline data is the application's again when PostSend returns.
func TestInlineIsCopied(t *testing.T) {
	l := newLoop(t, loopOptions{})
	for i, wr := range []SendWR{
		{Inline: []byte("inline bytes")},
		{SGList: []SGE{l.a.at(100, 7), l.a.at(107, 5)}},
	} {
		copy(l.a.data[100:], "inline bytes")
		wr.Opcode, wr.Flags = WRWrite, SendInline|SendSignaled
		wr.RemoteAddr, wr.RKey = l.b.region.IOVA()+uint64(i*64), l.b.region.RKey()
		require.NoError(t, l.a.qp.PostSend(l.now, &wr))
		clear(wr.Inline)
		clear(l.a.data)
		l.run()
		require.Equal(t, "inline bytes", string(l.b.data[i*64:][:12]))
	}
}

// 32 elements, more than a descriptor has fragments: gathered by copying, and scattered by a READ.
func TestManySGEs(t *testing.T) {
	l := newLoop(t, loopOptions{caps: QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 32, MaxRecvSGE: 1}})
	fill(l.a.data[:1<<16], 6)
	var list []SGE
	var want []byte
	for i := range 32 {
		off, n := i*1000+i, 1+i*37%301
		list = append(list, l.a.at(off, n))
		want = append(want, l.a.data[off:off+n]...)
	}
	wr := SendWR{Opcode: WRWrite, Flags: SendSignaled, SGList: list, RemoteAddr: l.b.region.IOVA(),
		RKey: l.b.region.RKey()}
	require.NoError(t, l.a.qp.PostSend(l.now, &wr))
	l.run()
	require.Equal(t, want, l.b.data[:len(want)])
	clear(l.a.data)
	wr.Opcode = WRRead
	require.NoError(t, l.a.qp.PostSend(l.now, &wr))
	l.run()
	var got []byte
	for _, e := range list {
		off := e.Addr - l.a.region.IOVA()
		got = append(got, l.a.data[off:][:e.Length]...)
	}
	require.Equal(t, want, got)
	require.Len(t, completions(l.a.scq), 2)
}

// Unsignaled requests complete silently; their slots come back.
func TestUnsignaled(t *testing.T) {
	l := newLoop(t, loopOptions{})
	for i := range 1000 {
		wr := SendWR{ID: uint64(i), Opcode: WRWrite, SGList: []SGE{l.a.at(0, 8)},
			RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey()}
		if i%100 == 99 {
			wr.Flags = SendSignaled
		}
		require.NoError(t, l.a.qp.PostSend(l.now, &wr))
		l.carry(l.a, l.b)
		l.carry(l.b, l.a)
	}
	wcs := completions(l.a.scq)
	require.Len(t, wcs, 10)
	require.EqualValues(t, 199, wcs[1].ID)
}

func TestSendCQOverflow(t *testing.T) {
	l := newLoop(t, loopOptions{cqe: 2})
	for range 4 {
		require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 8)},
			RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
		}))
	}
	l.run()
	require.Equal(t, StateErr, l.a.qp.State())
	require.Len(t, completions(l.a.scq), 2)
	var types []EventType
	for ev, ok := l.a.e.PollEvent(); ok; ev, ok = l.a.e.PollEvent() {
		types = append(types, ev.Type)
	}
	require.Equal(t, []EventType{EventCQError, EventQPFatal}, types)
}
