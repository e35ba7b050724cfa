package drill

import (
	"errors"
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
func (p *player) session(s *step) (peer.Session, error) {
	i := 0
	if s != nil && s.arg("pd") != nil {
		i = 1
	}
	if p.sessions[i] == nil {
		x, err := p.b.Session()
		if err != nil {
			p.refused = true
			return nil, err
		}
		p.sessions[i] = x
	}
	return p.sessions[i], nil
}

// region returns a region by its name.
func (p *player) region(name string) (peer.MR, error) {
	if m, ok := p.regions[name]; ok {
		return m, nil
	}
	if name != rxName && name != txName {
		return nil, fmt.Errorf("region %s is not there yet", name)
	}
	x, err := p.session(nil)
	if err != nil {
		return nil, err
	}
	m, err := x.MR(ownRegion, peer.AccessLocalWrite)
	if err == nil && name == txName {
		err = m.Fill(0, ownRegion, txSeed, 0)
	}
	if err != nil {
		return nil, err
	}
	p.regions[name] = m
	return m, nil
}

func (p *player) access(s *step) (peer.Access, error) {
	a := s.arg("access")
	if a == nil {
		return allAccess, nil
	}
	return access(word{a.at, a.word})
}

func (p *player) makeMR(s *step) error {
	x, err := p.session(s)
	if err != nil {
		return err
	}
	n, err := p.size(s, "len", 0, maxRegion)
	if err != nil {
		return err
	}
	a, err := p.access(s)
	if err != nil {
		return err
	}
	p.regions[s.name], err = x.MR(n, a)
	if err != nil {
		delete(p.regions, s.name)
	}
	return err
}

// numbers reads several arguments of a step.
type numbers struct {
	p   *player
	s   *step
	err error
}

func (n *numbers) get(key string, def, max uint64) int {
	v, err := n.p.size(n.s, key, def, max)
	n.err = errors.Join(n.err, err)
	return v
}

func (p *player) makeQP(s *step) error {
	x, err := p.session(s)
	if err != nil {
		return err
	}
	if len(p.order) == qpnsPerRun {
		return fmt.Errorf("%v: more than %d queue pairs", s.at, qpnsPerRun)
	}
	a, err := p.access(s)
	if err != nil {
		return err
	}
	n := numbers{p: p, s: s}
	q := &end{name: s.name, typ: map[string]ib.Transport{"rc": ib.RC, "uc": ib.UC, "ud": ib.UD}[s.bare[0]], family: peer.V4}
	if n.get("ip", 4, 6) == 6 {
		q.family = peer.V6
	}
	q.qpn = ib.QPN(p.vars["myqpn"]) + ib.QPN(len(p.order))
	q.mtu = n.get("mtu", defaultMTU, 4096)
	q.rq, q.sq = ib.PSN(n.get("rq_psn", defaultRQ, ib.PSNMask)), ib.PSN(n.get("sq_psn", defaultSQ, ib.PSNMask))
	q.qkey = uint64(n.get("qkey", defaultQKey, 1<<32-1))
	cfg := peer.QPConfig{
		Type: peer.Type(s.bare[0]), Access: a &^ peer.AccessMWBind, QKey: uint32(q.qkey),
		MaxSendWR: n.get("sends", defaultQueue, 4096), MaxRecvWR: n.get("recvs", defaultQueue, 4096),
	}
	conn := peer.Conn{
		Family: q.family, Remote: p.b.Local(q.family), RemoteQPN: uint32(q.qpn), MTU: q.mtu, SQPSN: uint32(q.sq), RQPSN: uint32(q.rq),
		FlowLabel: uint32(n.get("label", 0, maxFlowLabel)), Timeout: n.get("timeout", defaultTimeout, 31), RetryCnt: n.get("retry", defaultRetry, 7), RNRRetry: n.get("rnr_retry", 7, 7), MinRNRTimer: n.get("rnr_timer", defaultRNRTimer, 31),
		MaxRdAtomic: n.get("rd", defaultDepth, 255), MaxDestRdAtomic: n.get("depth", defaultDepth, 255),
	}
	if n.err != nil {
		return n.err
	}
	if q.qp, err = x.QP(cfg); err != nil {
		return err
	}
	to := peer.StateRTS
	if w := s.arg("state"); w != nil {
		to = stateOf(w.word)
	}
	if err := q.qp.ConnectTo(conn, to); err != nil {
		return err
	}
	p.ends[s.name] = q
	p.order = append(p.order, q)
	return nil
}

func stateOf(name string) peer.State {
	for i, n := range states {
		if n == name {
			return peer.State(i)
		}
	}
	return peer.StateReset
}

func (p *player) checkState(s *step) error {
	q, err := p.end(s)
	if err != nil {
		return err
	}
	want, got := stateOf(s.op), peer.State(0)
	err = p.b.Await(p.within(s), func(time.Duration) (ok bool, err error) {
		got, err = q.qp.State()
		return got == want, err
	})
	if err == nil && got != want {
		return differ(s, "the queue pair is in %s, and not in %s", states[min(max(int(got), 0), len(states)-1)], s.op)
	}
	p.note(s, "state %s", s.op)
	return err
}

func (p *player) modify(s *step) error {
	q, err := p.end(s)
	if err != nil {
		return err
	}
	p.note(s, "%s", s.text)
	err = q.qp.SetState(stateOf(s.op))
	switch {
	case err != nil && !s.has("fails"):
		return differ(s, "it is refused: %v", err)
	case err == nil && s.has("fails"):
		return differ(s, "it is not refused")
	}
	return nil
}

func (p *player) bind(s *step) error {
	q, err := p.end(s)
	if err != nil {
		return err
	}
	m, off, err := p.span(s.arg("at"))
	if err != nil {
		return err
	}
	n, err := p.size(s, "len", 0, maxRegion)
	if err != nil {
		return err
	}
	a, err := p.access(s)
	if err != nil {
		return err
	}
	key, err := q.qp.BindWindow(m, off, n, a&^(peer.AccessMWBind|peer.AccessLocalWrite))
	if err != nil {
		return err
	}
	q.sends++ // a bind is a work request
	p.windows[s.name] = key
	return nil
}

// span is the region that an address lies in, and the offset in it.
func (p *player) span(a *arg) (peer.MR, int, error) {
	m, err := p.region(a.num.terms[0].ref)
	if err != nil {
		return nil, 0, err
	}
	v, err := p.eval(a.num, false)
	if err != nil {
		return nil, 0, err
	}
	off := v - m.Addr()
	if off > uint64(m.Len()) {
		return nil, 0, fmt.Errorf("%v: offset %d of a region of %d", a.at, off, m.Len())
	}
	return m, int(off), nil
}

func (p *player) dereg(s *step) error {
	m, _, err := p.span(s.arg("at"))
	if err != nil {
		return err
	}
	p.note(s, "dereg %s", s.arg("at").num.terms[0].ref)
	return m.Dereg()
}

// contents are the region, offset and bytes of a step about memory.
func (p *player) contents(s *step) (m peer.MR, off int, b []byte, err error) {
	if m, off, err = p.span(s.arg("at")); err != nil {
		return nil, 0, nil, err
	}
	d := s.arg("data").data
	n := d.length()
	if s.arg("len") != nil || n < 0 {
		if n, err = p.size(s, "len", 0, 1<<16); err != nil {
			return nil, 0, nil, err
		}
	}
	b, err = p.bytes(d, n)
	return m, off, b, err
}

func (p *player) fillMemory(s *step) error {
	m, off, b, err := p.contents(s)
	if err != nil {
		return err
	}
	return m.Write(off, b)
}

func (p *player) checkMemory(s *step) error {
	m, off, want, err := p.contents(s)
	if err != nil {
		return err
	}
	got, err := m.Read(off, len(want))
	if err != nil {
		return err
	}
	p.note(s, "%s", s.text)
	for i := range want {
		if got[i] != want[i] {
			return differ(s, "byte %d is %#02x, and not %#02x: got %x, want %x", i, got[i], want[i], short(got[i:]), short(want[i:]))
		}
	}
	return nil
}

// short is the beginning of bytes, for a message.
func short(b []byte) []byte { return b[:min(len(b), 16)] }

func (p *player) listen(s *step) error {
	port, err := p.b.Listen(map[string]peer.Type{"rc": peer.RC, "ud": peer.UD}[s.bare[0]])
	if err != nil {
		return err
	}
	space := uint64(0x0106)
	if s.has("ud") {
		space = 0x0111
	}
	p.vars["port"], p.vars["service"] = uint64(port), space<<16|uint64(port)
	return nil
}
