package drill

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// Defaults of the queue pairs and regions of scripts.
const (
	defaultMTU      = 1024
	defaultDepth    = 16
	defaultTimeout  = 0 // none: timers do not come into what is not about them
	defaultRetry    = 7
	defaultRNRTimer = 12 // code: 0.64 ms
	defaultRQ       = 0x1000
	defaultSQ       = 0x5000
	defaultQKey     = 0x11111111
	defaultQueue    = 64
	// The regions rx and tx are there without being made: where receives and READs go, and what is
	// sent. tx holds the pattern of seed 1.
	rxName, txName = "rx", "tx"
	ownRegion      = 1 << 18
	maxFlowLabel   = 1<<20 - 1
	txSeed         = 1
)

const allAccess = peer.AccessAll | peer.AccessMWBind | peer.AccessFlushGlobal

// session returns the session of the usual or of the other protection domain.
func (p *player) session(s *step) peer.Session {
	i := 0
	if s != nil && s.arg("pd") != nil {
		i = 1
	}
	if p.sessions[i] == nil {
		x, err := p.b.Session()
		p.refused = p.refused || err != nil
		peer.Must(err)
		p.sessions[i] = x
	}
	return p.sessions[i]
}

// region returns a region by its name.
func (p *player) region(name string) (peer.MR, error) {
	if m, ok := p.regions[name]; ok {
		return m, nil
	}
	if name != rxName && name != txName {
		return nil, fmt.Errorf("region %s is not there yet", name)
	}
	m, err := p.session(nil).MR(ownRegion, peer.AccessLocalWrite)
	if err == nil && name == txName {
		err = m.Fill(0, ownRegion, txSeed, 0)
	}
	if err != nil {
		return nil, err
	}
	p.regions[name] = m
	return m, nil
}

func (p *player) access(s *step) peer.Access {
	a := s.arg("access")
	if a == nil {
		return allAccess
	}
	return peer.Got(access(word{a.at, a.word}))
}

func (p *player) makeMR(s *step) {
	x := p.session(s)
	p.regions[s.name] = peer.Got(x.MR(p.size(s, "len", 0, maxRegion), p.access(s)))
}

func (p *player) makeQP(s *step) {
	x := p.session(s)
	if len(p.order) == qpnsPerRun {
		peer.Must(fmt.Errorf("%v: more than %d queue pairs", s.at, qpnsPerRun))
	}
	get := func(key string, def, max uint64) int { return p.size(s, key, def, max) }
	q := &end{name: s.name, typ: map[string]ib.Transport{"rc": ib.RC, "uc": ib.UC, "ud": ib.UD}[s.bare[0]],
		family: peer.V4}
	if get("ip", 4, 6) == 6 {
		q.family = peer.V6
	}
	q.qpn = ib.QPN(p.vars["myqpn"]) + ib.QPN(len(p.order))
	q.mtu = get("mtu", defaultMTU, 4096)
	q.rq, q.sq = ib.PSN(get("rq_psn", defaultRQ, ib.PSNMask)), ib.PSN(get("sq_psn", defaultSQ, ib.PSNMask))
	q.qkey = uint64(get("qkey", defaultQKey, 1<<32-1))
	conn := peer.Conn{
		Family: q.family, Remote: p.b.Local(q.family), RemoteQPN: uint32(q.qpn), MTU: q.mtu,
		SQPSN: uint32(q.sq), RQPSN: uint32(q.rq), FlowLabel: uint32(get("label", 0, maxFlowLabel)),
		Timeout: get("timeout", defaultTimeout, 31), RetryCnt: get("retry", defaultRetry, 7),
		RNRRetry: get("rnr_retry", 7, 7), MinRNRTimer: get("rnr_timer", defaultRNRTimer, 31),
		MaxRdAtomic: get("rd", defaultDepth, 255), MaxDestRdAtomic: get("depth", defaultDepth, 255),
	}
	q.qp = peer.Got(x.QP(peer.QPConfig{
		Type: peer.Type(s.bare[0]), Access: p.access(s) &^ peer.AccessMWBind, QKey: uint32(q.qkey),
		MaxSendWR: get("sends", defaultQueue, 4096), MaxRecvWR: get("recvs", defaultQueue, 4096),
	}))
	to := peer.StateRTS
	if w := s.arg("state"); w != nil {
		to = stateOf(w.word)
	}
	peer.Must(q.qp.ConnectTo(conn, to))
	p.ends[s.name] = q
	p.order = append(p.order, q)
}

func stateOf(name string) peer.State {
	for i, n := range states {
		if n == name {
			return peer.State(i)
		}
	}
	return peer.StateReset
}

func (p *player) checkState(s *step) {
	q, want, got := p.end(s), stateOf(s.op), peer.State(0)
	peer.Must(p.b.Await(p.within(s), func(time.Duration) (ok bool, err error) {
		got, err = q.qp.State()
		return got == want, err
	}))
	if got != want {
		differ(s, "the queue pair is in %s, and not in %s", states[min(max(int(got), 0), len(states)-1)], s.op)
	}
	p.note(s, "state %s", s.op)
}

func (p *player) modify(s *step) {
	q := p.end(s)
	p.note(s, "%s", s.text)
	switch err := q.qp.SetState(stateOf(s.op)); {
	case err != nil && !s.has("fails"):
		differ(s, "it is refused: %v", err)
	case err == nil && s.has("fails"):
		differ(s, "it is not refused")
	}
}

func (p *player) bind(s *step) {
	q := p.end(s)
	m, off := p.span(s.arg("at"))
	n, a := p.size(s, "len", 0, maxRegion), p.access(s)
	p.windows[s.name] = peer.Got(q.qp.BindWindow(m, off, n, a&^(peer.AccessMWBind|peer.AccessLocalWrite)))
	q.sends++ // a bind is a work request
}

// span is the region that an address lies in, and the offset in it.
func (p *player) span(a *arg) (peer.MR, int) {
	m := peer.Got(p.region(a.num.terms[0].ref))
	off := p.eval(a.num, false) - m.Addr()
	if off > uint64(m.Len()) {
		peer.Must(fmt.Errorf("%v: offset %d of a region of %d", a.at, off, m.Len()))
	}
	return m, int(off)
}

func (p *player) dereg(s *step) {
	m, _ := p.span(s.arg("at"))
	p.note(s, "dereg %s", s.arg("at").num.terms[0].ref)
	peer.Must(m.Dereg())
}

// contents are the region, offset and bytes of a step about memory.
func (p *player) contents(s *step) (m peer.MR, off int, b []byte) {
	m, off = p.span(s.arg("at"))
	d := s.arg("data").data
	n := d.length()
	if s.arg("len") != nil || n < 0 {
		n = p.size(s, "len", 0, 1<<16)
	}
	return m, off, p.bytes(d, n)
}

func (p *player) fillMemory(s *step) {
	m, off, b := p.contents(s)
	peer.Must(m.Write(off, b))
}

func (p *player) checkMemory(s *step) {
	m, off, want := p.contents(s)
	got := peer.Got(m.Read(off, len(want)))
	p.note(s, "%s", s.text)
	for i := range want {
		if got[i] != want[i] {
			differ(s, "byte %d is %#02x, and not %#02x: got %x, want %x", i, got[i], want[i], short(got[i:]),
				short(want[i:]))
		}
	}
}

// short is the beginning of bytes, for a message.
func short(b []byte) []byte { return b[:min(len(b), 16)] }

func (p *player) listen(s *step) {
	port := peer.Got(p.b.Listen(map[string]peer.Type{"rc": peer.RC, "ud": peer.UD}[s.bare[0]]))
	space := uint64(0x0106)
	if s.has("ud") {
		space = 0x0111
	}
	p.vars["port"], p.vars["service"] = uint64(port), space<<16|uint64(port)
}
