package matrix

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

const (
	// maxSize is the largest transfer of the matrix, in bytes.
	maxSize = 1 << 20
	// guard is the number of bytes checked before and after each transfer.
	guard = 64
	// udGRH is the size of the GRH area in front of a UD message.
	udGRH = 40
	// arenaSize leaves room for guards, an odd offset and the GRH area.
	arenaSize = maxSize + 4*guard

	// firstPSN is where every QP starts: near the 24-bit wrap.
	firstPSN = 0xfffff0
	psnMask  = 0xffffff

	// qkey of the UD queue pairs.
	qkey = 0x11111111

	// opWait bounds the wait for one completion: a transfer of MaxSize takes about a
	// second at the smallest MTU, and many on a busy machine; retries that run out end
	// by themselves, after 34 s at most (patientTimeout).
	opWait = time.Minute
)

// Env is what a run of checks works with.
type Env struct {
	Wire   *ether.Switch
	Report *Report
	// Kernel and Link label the rows; Link is the subject's.
	Kernel, Link string
	// Subject is the implementation under test, Ref the one that it is tested against.
	// Groups that only run programs on Hosts need neither.
	Subject, Ref peer.Peer
	// LinkInUse asks the kernel which link the subject's device has open; nil if nobody can say.
	LinkInUse func() (string, error)
	// RefPort is the name of the reference's port on the wire.
	RefPort string
	// Full runs everything; otherwise a subset is chosen.
	Full bool
	// FirstPort is the first TCP port of the tools; runs side by side need ranges apart.
	FirstPort int
	// Guest, if not nil, is held for reading by each row while it runs, and alone by rows that
	// cannot stand others in the same guest. Runs side by side against a guest share it.
	Guest *sync.RWMutex
	// Choose, if not nil, says which rows are wanted.
	Choose func(Row) bool
	// Lanes is how many rows of a group may be on their way at a time; 0 is what suits a guest with
	// one CPU.
	Lanes int
	// Untried is set for a version of rxe that nobody has tried: where others deviate it may do as
	// the specification says.
	Untried bool
	// Blind is set if the packets between the two peers do not pass Wire: rows that need that are
	// skipped.
	Blind bool
	// Seed is where the contents of transfers come from.
	Seed uint64
	// MicroTimes is how often a reaction is measured: of the group micro much more is run than for
	// a look at it. 0 is a look.
	MicroTimes int
	// Tolerant, if not nil, has rows fail when a peer is lost, where the run would end otherwise.
	Tolerant *Tolerance
	// Explain, if not nil, is shown each row of Run that has failed, with the last packets of its
	// connection, and returns it with what it has to say.
	Explain func(Row, []ether.Event) Row
	// StoodStill, if not nil, returns for how long the guest answered nobody between two times on
	// the clock of Wire: the longest such time, and all together.
	StoodStill func(from, to time.Duration) (longest, all time.Duration)
	wait       time.Duration // lossyWait, if not 0
	// OnlyTool leaves out tools whose name and arguments do not contain it.
	OnlyTool string
}

// share runs f beside other rows, or by itself.
func (e *Env) share(alone bool, f func()) {
	switch {
	case e.Guest == nil:
	case alone:
		e.Guest.Lock()
		defer e.Guest.Unlock()
	default:
		e.Guest.RLock()
		defer e.Guest.RUnlock()
	}
	f()
}

// role says which side asks.
type role string

const (
	requester role = "requester"
	responder role = "responder"
)

// sides returns requester and responder for the subject in a role.
func (e *Env) sides(r role) (req, rsp peer.Peer) {
	if r == requester {
		return e.Subject, e.Ref
	}
	return e.Ref, e.Subject
}

// isRXE reports whether a peer is the kernel's rxe, whose deviations from the
// specification some expectations take into account.
func isRXE(p peer.Peer) bool { return p.Profile() == peer.ProfileRXE }

// isGoroce reports whether a peer is this module, whose own choices, such as timers and probes,
// are checked, too.
func isGoroce(p peer.Peer) bool { return p.Profile() == peer.ProfileGoroce }

// row starts a row of this environment.
func (e *Env) row(group, op string, r role) Row {
	return Row{Kernel: e.Kernel, Group: group, Op: op, Role: string(r), Link: e.Link}
}

// ended returns the row with its outcome.
func (row Row) ended(err error) Row {
	row.Result = Pass
	if err != nil {
		row.Result = Fail
		row.Detail = err.Error()
		row.wrong = isWrong(err)
	}
	var e endedError
	if errors.As(err, &e) {
		row.Expected, row.Came = e.wanted(), e.Status.String()
	}
	var s starvedError
	var i inconclusiveError
	if errors.As(err, &s) || errors.As(err, &i) {
		row.Result = Inconclusive
	}
	return row
}

// skipped returns the row as one that was left out.
func (row Row) skipped(why string) Row {
	row.Result, row.Detail = Skip, why
	return row
}

// side is one peer with a session and an arena.
type side struct {
	p     peer.Peer
	s     peer.Session
	arena peer.MR
}

func openSide(ctx context.Context, p peer.Peer) (*side, error) {
	s, err := p.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name(), err)
	}
	access := peer.AccessAll | peer.AccessMWBind
	if p.Caps().Flush {
		// rxe refuses persistent placement on memory that is not persistent.
		access |= peer.AccessFlushGlobal
	}
	mr, err := s.MR(arenaSize, access)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", p.Name(), err)
	}
	return &side{p: p, s: s, arena: mr}, nil
}

// pair is the two sides of one run.
type pair struct {
	env      *Env
	req, rsp *side
	seed     uint64
	kept     *ether.Trace // of the last connection, if failures are explained
}

// open makes sessions on both peers, for the subject in a role.
func (e *Env) open(ctx context.Context, r role) (*pair, error) {
	a, b := e.sides(r)
	req, err := openSide(ctx, a)
	if err != nil {
		return nil, err
	}
	rsp, err := openSide(ctx, b)
	if err != nil {
		req.s.Close()
		return nil, err
	}
	return &pair{env: e, req: req, rsp: rsp, seed: e.Seed << 32}, nil
}

// keptPackets is how many of the last packets of a connection are shown to Env.Explain at least.
const keptPackets = 2048

// keep begins to keep the packets of a connection.
func (p *pair) keep(c *conn) {
	if p.env.Explain != nil {
		p.kept.Stop()
		p.kept = p.env.Wire.TraceLast(keptPackets, c.between())
	}
}

// packets are those that were kept.
func (p *pair) packets() []ether.Event {
	if p.kept == nil {
		return nil
	}
	return p.kept.Events()
}

// broken is why a session can do no more, if one cannot.
func (p *pair) broken() error {
	for _, s := range []*side{p.req, p.rsp} {
		if b, ok := s.s.(interface{ Broken() error }); ok && b.Broken() != nil {
			return fmt.Errorf("%s: %w", s.p.Name(), b.Broken())
		}
	}
	return nil
}

func (p *pair) close() {
	p.kept.Stop()
	p.req.s.Close()
	p.rsp.s.Close()
}

// nextSeed gives each transfer contents of its own.
func (p *pair) nextSeed() uint64 { p.seed += 2; return p.seed }

// params are the connection's attributes, with the defaults of perftest.
type params struct {
	typ      peer.Type
	family   peer.Family
	mtu      int
	timeout  int
	retry    int
	rnrRetry int
	rnrTimer int
}

// Timer codes (4.096 us times 2 to the code). An emulated guest on a busy machine may stall
// for hundreds of milliseconds: where nothing is lost on purpose the timer is long, and
// where something is, the retries together outlast a stall.
const (
	calmTimeout  = 18 // 1.07 s
	faultTimeout = 15 // 134 ms, where each loss of a last packet costs one
	probeTimeout = 17 // 537 ms, where a probe finds such a loss long before
	tenseTimeout = 16 // 268 ms, where it is to run out

	patientTimeout = 20 // 4.3 s, where it must not
)

func defaults(t peer.Type, f peer.Family, mtu int) params {
	return params{typ: t, family: f, mtu: mtu, timeout: calmTimeout, retry: 7, rnrRetry: 7, rnrTimer: 12}
}

// conn is a connected pair of QPs: rq is the requester's, sq the responder's ("server").
type conn struct {
	*pair
	params
	rq, sq peer.QP
	psn    uint32 // the requester's next PSN
}

func (p *pair) connect(par params) (*conn, error) {
	cfg := peer.QPConfig{Type: par.typ, QKey: qkey}
	if par.typ != peer.UD {
		cfg.Access = peer.AccessRemoteWrite
	}
	if par.typ == peer.RC {
		cfg.Access = peer.AccessRemoteWrite | peer.AccessRemoteRead | peer.AccessRemoteAtomic | peer.AccessFlushGlobal
	}
	rq, err := p.req.s.QP(cfg)
	if err != nil {
		return nil, fmt.Errorf("requester's QP: %w", err)
	}
	sq, err := p.rsp.s.QP(cfg)
	if err != nil {
		rq.Close()
		return nil, fmt.Errorf("responder's QP: %w", err)
	}
	c := &conn{pair: p, params: par, rq: rq, sq: sq, psn: firstPSN}
	p.keep(c)
	for _, x := range []struct {
		qp    peer.QP
		other peer.QP
		far   peer.Peer
		name  string
	}{{sq, rq, p.req.p, "responder"}, {rq, sq, p.rsp.p, "requester"}} {
		err := x.qp.Connect(peer.Conn{
			Family: par.family, Remote: x.far.Addr(par.family), RemoteQPN: x.other.QPN(), MTU: par.mtu,
			SQPSN: firstPSN, RQPSN: firstPSN, Timeout: par.timeout, RetryCnt: par.retry, RNRRetry: par.rnrRetry,
			MinRNRTimer: par.rnrTimer, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
		})
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect %s: %w", x.name, err)
		}
	}
	return c, nil
}

func (c *conn) close() {
	c.rq.Close()
	c.sq.Close()
}

// packets is the number of packets of a message, and of PSNs it takes.
func (c *conn) packets(size int) int { return max(1, (size+c.mtu-1)/c.mtu) }

// advance moves the requester's PSN past a message.
func (c *conn) advance(size int) { c.psn = (c.psn + uint32(c.packets(size))) & psnMask }
