package transport_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// link is one QP of a connection with the end that it belongs to.
type link struct {
	*end
	qp     *transport.QP
	attr   transport.QPAttr // as connected
	nextID uint64
}

type linkConfig struct {
	typ    ib.Transport // RC
	attr   func(l *link, a *transport.QPAttr)
	caps   transport.QPCaps
	sigAll bool
	srq    [2]*transport.SRQ
	cq     [2]*transport.CQ // send and receive CQ of either end; nil for the end's own
	until  transport.QPState
}

const (
	testSQPSN0 = ib.PSN(0xFFFFFE) // the PSNs of most tests wrap
	testSQPSN1 = ib.PSN(0x000100)
	puppetQPN  = ib.QPN(0xABCD)
)

// connect makes a QP at each end and connects them.
func (p *pair) connect(c linkConfig) (a, b *link) {
	p.t.Helper()
	if c.typ == 0 {
		c.typ = ib.RC
	}
	if c.caps == (transport.QPCaps{}) {
		c.caps = transport.QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256}
	}
	if c.until == 0 {
		c.until = transport.StateRTS
	}
	var ls [2]*link
	for i, e := range p.ends {
		ls[i] = &link{end: e}
		if e.eng == nil {
			continue
		}
		cq := e.cq
		if c.cq[i] != nil {
			cq = c.cq[i]
		}
		qp, err := e.eng.CreateQP(transport.QPInitAttr{
			Type: c.typ, PD: e.pd, SendCQ: cq, RecvCQ: cq, SRQ: c.srq[i], Caps: c.caps, SigAll: c.sigAll,
		})
		require.NoError(p.t, err)
		ls[i].qp = qp
		e.qps = append(e.qps, qp)
	}
	psn := [2]ib.PSN{testSQPSN0, testSQPSN1}
	for i, l := range ls {
		peer := puppetQPN
		if q := ls[1-i].qp; q != nil {
			peer = q.Number()
		}
		l.attr = transport.QPAttr{
			Access: allAccess &^ mem.MWBind, PortNum: 1, QKey: 0x11111111,
			AV: transport.AddressVector{DGID: ib.GIDFromAddr(l.peer().addr)}, PathMTU: ib.MTU1024,
			DestQPN: peer, RQPSN: psn[1-i], SQPSN: psn[i], MaxRdAtomic: 4, MaxDestRdAtomic: 4,
			MinRNRTimer: 12, Timeout: 8, RetryCnt: 7, RNRRetry: 7, // 1 ms
		}
	}
	for _, l := range ls {
		if c.attr != nil {
			c.attr(l, &l.attr)
		}
		if l.qp != nil {
			l.bringUp(c.until)
		}
	}
	return ls[0], ls[1]
}

// bringUp takes a QP in RESET through the states with the link's attributes.
func (l *link) bringUp(until transport.QPState) {
	steps := map[ib.Transport][3]transport.AttrMask{
		ib.RC: {
			transport.AttrAccess,
			transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN |
				transport.AttrMaxDestRdAtomic | transport.AttrMinRNRTimer,
			transport.AttrSQPSN | transport.AttrTimeout | transport.AttrRetryCnt | transport.AttrRNRRetry |
				transport.AttrMaxRdAtomic | transport.AttrWindow | transport.AttrSilence,
		},
		ib.UC: {
			transport.AttrAccess,
			transport.AttrAV | transport.AttrPathMTU | transport.AttrDestQPN | transport.AttrRQPSN,
			transport.AttrSQPSN,
		},
		ib.UD: {transport.AttrQKey, 0, transport.AttrSQPSN},
	}[l.qp.Type()]
	steps[0] |= transport.AttrPKeyIndex | transport.AttrPort
	for i, s := range []transport.QPState{transport.StateInit, transport.StateRTR, transport.StateRTS} {
		if s > until {
			break
		}
		a := l.attr
		a.State = s
		require.NoError(l.p.t, l.qp.Modify(l.p.now, a, transport.AttrState|steps[i]))
	}
	if !l.p.slowStart && l.qp.State() == transport.StateRTS {
		l.qp.OpenWindow()
	}
	l.register()
}

// register tells the log where the PSNs of the link start.
func (l *link) register() {
	l.p.conns[connKey{l.i, l.qp.Number()}] = &conn{rqPSN: l.attr.RQPSN, sqPSN: l.attr.SQPSN,
		peer: l.attr.DestQPN, seen: map[sending]int{}}
	l.p.pathMTU = l.attr.PathMTU.Bytes()
}

// post posts a work request; it is signalled and has an ID unless one was set.
func (l *link) post(wr transport.SendWR) uint64 {
	l.p.t.Helper()
	id, err := l.tryPost(wr)
	require.NoError(l.p.t, err)
	return id
}

func (l *link) tryPost(wr transport.SendWR) (uint64, error) {
	if wr.ID == 0 {
		l.nextID++
		wr.ID = l.nextID
	}
	wr.Flags |= transport.SendSignaled
	return wr.ID, l.qp.PostSend(l.p.now, &wr)
}

// recv posts a receive into length bytes at off.
func (l *link) recv(id uint64, off, length int) {
	l.p.t.Helper()
	wr := transport.RecvWR{ID: id}
	if length > 0 {
		wr.SGList = []transport.SGE{l.sge(off, length)}
	}
	require.NoError(l.p.t, l.qp.PostRecv(&wr))
	l.p.watcher.postedRecv(l)
}

// Work requests on the whole memory of either end: off is that of both the
// local and the remote bytes unless said otherwise.

func (l *link) send(off, n int) transport.SendWR {
	return transport.SendWR{Opcode: transport.WRSend, SGList: []transport.SGE{l.sge(off, n)}}
}

func (l *link) write(off, roff, n int) transport.SendWR {
	return transport.SendWR{Opcode: transport.WRWrite, SGList: []transport.SGE{l.sge(off, n)},
		RemoteAddr: l.peer().base + uint64(roff), RKey: l.peer().region.RKey()}
}

func (l *link) read(off, roff, n int) transport.SendWR {
	wr := l.write(off, roff, n)
	wr.Opcode = transport.WRRead
	return wr
}

func (l *link) fetchAdd(off, roff int, add uint64) transport.SendWR {
	wr := l.write(off, roff, 8)
	wr.Opcode, wr.CompareAdd = transport.WRFetchAdd, add
	return wr
}

func (l *link) compareSwap(off, roff int, cmp, swap uint64) transport.SendWR {
	wr := l.write(off, roff, 8)
	wr.Opcode, wr.CompareAdd, wr.Swap = transport.WRCompareSwap, cmp, swap
	return wr
}

func with(wr transport.SendWR, change func(*transport.SendWR)) transport.SendWR {
	change(&wr)
	return wr
}

// fill writes a pattern that depends on the seed into the end's memory.
func (e *end) fill(off, n int, seed uint64) []byte {
	b := e.buf[off : off+n]
	rng := rand.NewPCG(seed, 7)
	i := 0
	for ; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	for ; i < n; i++ {
		b[i] = byte(rng.Uint64())
	}
	return b
}

// poll returns all completions of the end's CQ.
func (e *end) poll() []transport.WC { return pollCQ(e.cq) }

func pollCQ(cq *transport.CQ) []transport.WC {
	var all []transport.WC
	var buf [16]transport.WC
	for n := cq.Poll(buf[:]); n > 0; n = cq.Poll(buf[:]) {
		all = append(all, buf[:n]...)
	}
	return all
}

// wantWC polls and compares ID and status, as in "1 success".
func (e *end) wantWC(want ...string) []transport.WC {
	e.p.t.Helper()
	wcs := e.poll()
	var got []string
	for _, wc := range wcs {
		got = append(got, fmt.Sprintf("%d %v", wc.ID, wc.Status))
	}
	require.Equal(e.p.t, want, got, "completions of %s", e.name)
	return wcs
}

// wantEvents compares the types of all events since the last look.
func (e *end) wantEvents(want ...transport.EventType) {
	e.p.t.Helper()
	e.takeEvents()
	var got []transport.EventType
	for _, ev := range e.events {
		got = append(got, ev.Type)
	}
	e.events = nil
	require.Equal(e.p.t, want, got, "events of %s", e.name)
}

func (e *end) takeEvents() {
	if e.eng == nil {
		return
	}
	for ev, ok := e.eng.PollEvent(); ok; ev, ok = e.eng.PollEvent() {
		e.events = append(e.events, ev)
	}
}
