package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// Options say how to run. The zero value is good.
type Options struct {
	// Profile is what is expected of the target; empty is the specification first, and then the
	// target's own.
	Profile Profile
	// Within is how long to wait for what a script gives no time for; 0 is DefaultWithin.
	Within time.Duration
	// Stop also plays what is known to stop the machine of some version of what the target is.
	Stop bool
}

// DefaultWithin is how long a packet or a completion may take where a script does not say: on a
// machine that has other things to do, too.
const DefaultWithin = 10 * time.Second

// Run plays a drill on a target. It never fails: what went wrong is in the result.
func Run(ctx context.Context, d *Drill, t Target, opt Options) Result {
	for _, f := range d.Needs {
		if !t.Has(f) {
			return Result{Drill: d, Target: t.Name(), Verdict: Skip, Profile: t.Profile(),
				Text: "the target has no " + string(f)}
		}
	}
	if !opt.Stop && d.Dangerous(t.Profile()) {
		return Result{Drill: d, Target: t.Name(), Verdict: Skip, Profile: t.Profile(),
			Text: "it stops the machine of some versions: " + texts(d.Stops)}
	}
	if opt.Within <= 0 {
		opt.Within = DefaultWithin
	}
	if opt.Profile != "" {
		return play(ctx, d, t, opt.Profile, opt)
	}
	first := play(ctx, d, t, Spec, opt)
	own := t.Profile()
	if first.Verdict != Fail {
		return first
	}
	first.Text += "\nexpected as the specification has it: " + first.Expected
	if own == Spec || len(d.Deviates(own)) == 0 && !d.profiled {
		return first.unlike(ctx, d, t, opt)
	}
	second := play(ctx, d, t, own, opt)
	switch known := d.Deviates(own); {
	case second.Verdict == Broken:
		return second
	case second.Verdict == Pass && len(known) > 0:
		first.Verdict, first.Profile, first.Deviations, first.Text = Deviates, own, known, texts(known)
		return first
	case second.Verdict == Pass && Tried(own):
		// A difference that the script allows and does not name is a fault of the script.
		first.Text += fmt.Sprintf("\nthe script has steps for %s that fit, and does not say what they are about: it needs a line \"deviates %s TEXT\"", own, own)
		return first
	case second.Verdict == Fail && len(known) > 0:
		first.Text += fmt.Sprintf("\n%s is known for something else (%s): %s", own, texts(known), second.Text)
	}
	return first.unlike(ctx, d, t, opt)
}

// runs numbers the runs of this process: what one leaves behind must not meet the next.
var runs atomic.Uint32

// difference is a failure of the peer, as opposed to one of the target.
type difference struct {
	at   place
	text string
}

func (d *difference) Error() string { return fmt.Sprintf("%v: %s", d.at, d.text) }

// differ ends the step that it is called in, as everything does here that fails: see [peer.Steps].
func differ(s *step, format string, args ...any) {
	peer.Must(&difference{s.at, fmt.Sprintf(format, args...)})
}

// player is a drill on its way.
type player struct {
	ctx     context.Context
	d       *Drill
	b       Bench
	profile Profile
	opt     Options
	refused bool // a session was
	quirk   bool // FLUSH has rxe's ICRC

	sessions [2]peer.Session
	ends     map[string]*end
	order    []*end
	regions  map[string]peer.MR
	windows  map[string]uint32
	vars     map[string]uint64
	commID   uint64

	queue  []Datagram    // received and not used
	passed []*step       // what may come any number of times before the next packet
	mark   time.Duration // where "after" counts from
	sends  bool          // nothing but sending since then
	all    []Datagram
	log    []event
}

// end is the drill's end of a queue pair.
type end struct {
	name     string
	typ      ib.Transport
	qp       peer.QP
	qpn      ib.QPN // the drill's
	mtu      int
	rq, sq   ib.PSN // of the peer: the first expected, the first sent
	qkey     uint64
	family   peer.Family
	sends    uint64
	recvs    uint64
	pendSend []peer.WC
	pendRecv []peer.WC
}

// play runs a drill with the expectations of a profile.
func play(ctx context.Context, d *Drill, t Target, profile Profile, opt Options) (res Result) {
	res = Result{Drill: d, Target: t.Name(), Profile: profile, Verdict: Pass}
	b, err := t.Open(ctx)
	if err != nil {
		res.Verdict, res.Text, res.Lost = Broken, err.Error(), true
		return res
	}
	n := uint64(runs.Add(1))
	p := &player{
		ctx: ctx, d: d, b: b, profile: profile, opt: opt, quirk: t.Has(quirkRxeFlush),
		ends: map[string]*end{}, regions: map[string]peer.MR{}, windows: map[string]uint32{},
		commID: n << 8 & 0x3fffff00,
	}
	p.vars = map[string]uint64{"me": p.commID, "guid": 0x02d1_11ff_fe00_0000 | n&0xffffff,
		"myqpn": uint64(p.nextQPN(n))}
	err = p.steps(d.steps)
	res.Lost = p.lost()
	res.Took = b.Now()
	err = errors.Join(err, p.close())
	res.Packets = p.all
	var diff *difference
	switch {
	case err == nil:
		return res
	case errors.As(err, &diff):
		res.Verdict, res.Text, res.Came = Fail, diff.Error(), diff.text
		if s := find(d.steps, diff.at.line); s != nil {
			res.Expected = selectorsOff(s.text)
		}
	default:
		res.Verdict, res.Text = Broken, err.Error()
	}
	res.Ladder = p.ladder(diff)
	return res
}

// lost reports whether there is no peer any more, or none yet.
func (p *player) lost() bool {
	for _, s := range p.sessions {
		if b, ok := s.(interface{ Broken() error }); ok && b.Broken() != nil {
			return true
		}
	}
	return p.refused
}

func (p *player) close() error {
	var errs []error
	for _, s := range p.sessions {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, p.b.Close())...)
}

// The drill's queue pair numbers: firstQPN and up, each used once in a long while.
const (
	firstQPN   = 0x200000
	qpnsPerRun = 8
	qpnRuns    = 0x10000
)

func (p *player) nextQPN(run uint64) ib.QPN {
	return ib.QPN(firstQPN + run%qpnRuns*qpnsPerRun + uint64(len(p.order)))
}

// steps runs a list of steps.
func (p *player) steps(list []step) error {
	for i := range list {
		s := &list[i]
		if !s.runs(p.profile) {
			continue
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if s.verb == "repeat" {
			for v := s.from; v <= s.to; v++ {
				p.vars[s.name] = uint64(v)
				if err := p.steps(s.body); err != nil {
					return err
				}
			}
			continue
		}
		if err := peer.Steps(func() { p.step(s) }); err != nil {
			if !strings.HasPrefix(err.Error(), s.at.file+":") {
				err = fmt.Errorf("%v: %w", s.at, err)
			}
			return err
		}
	}
	return nil
}

func (p *player) step(s *step) {
	switch s.verb {
	case ">":
		p.inject(s)
	case "<", "<?", "<*":
		p.expect(s)
	case "qp":
		p.makeQP(s)
	case "mr":
		p.makeMR(s)
	case "window":
		p.bind(s)
	case "recv":
		p.postRecv(s)
	case "post":
		p.postSend(s)
	case "done":
		p.done(s)
	case "mem":
		p.checkMemory(s)
	case "fill":
		p.fillMemory(s)
	case "state":
		p.checkState(s)
	case "modify":
		p.modify(s)
	case "dereg":
		p.dereg(s)
	case "listen":
		p.listen(s)
	case "wait":
		p.wait(s)
	case "uplink":
		p.uplink(s)
	default:
		peer.Must(fmt.Errorf("%v: no step %q", s.at, s.verb))
	}
}

// eval computes an expression; with keys set, names of objects stand for their keys.
func (p *player) eval(e expr, keys bool) uint64 {
	return peer.Got(e.eval(func(name string, variable bool) (uint64, error) {
		if variable {
			if v, ok := p.vars[name]; ok {
				return v, nil
			}
			return 0, fmt.Errorf("$%s has no value yet", name)
		}
		if k, ok := p.windows[name]; ok {
			return uint64(k), nil
		}
		if q, ok := p.ends[name]; ok {
			return uint64(q.qp.QPN()), nil
		}
		m, err := p.region(name)
		if err != nil {
			return 0, err
		}
		if keys {
			return uint64(m.RKey()), nil
		}
		return m.Addr(), nil
	}))
}

// num is the value of an argument, or def if it is not there.
func (p *player) num(s *step, key string, def uint64) uint64 {
	a := s.arg(key)
	if a == nil {
		return def
	}
	return p.eval(a.num, key == "key" || key == "inv")
}

// size is num for what takes memory or time: it must not exceed max.
func (p *player) size(s *step, key string, def, max uint64) int {
	v := p.num(s, key, def)
	if v > max {
		peer.Must(fmt.Errorf("%v: %s=%d exceeds %d", s.at, key, v, max))
	}
	return int(v)
}

// end returns the queue pair of a step.
func (p *player) end(s *step) *end {
	if a := s.arg("qp"); a != nil {
		if p.ends[a.word] == nil {
			peer.Must(fmt.Errorf("%v: queue pair %s is not there yet", s.at, a.word))
		}
		return p.ends[a.word]
	}
	if len(p.order) == 0 {
		peer.Must(fmt.Errorf("%v: no queue pair is there yet", s.at))
	}
	return p.order[0]
}

func (p *player) within(s *step) time.Duration {
	if a := s.arg("within"); a != nil {
		return max(a.time, p.b.Silence(a.time))
	}
	return p.opt.Within
}

func (p *player) wait(s *step) {
	peer.Must(p.b.Await(s.arg("for").time, func(time.Duration) (bool, error) { return false, nil }))
}

func (p *player) uplink(s *step) {
	most := p.size(s, "max", 0, maxPayload)
	p.note(s, "%s", s.text)
	peer.Must(p.b.Uplink(most))
}

// bytes makes contents of n bytes.
func (p *player) bytes(d dataSpec, n int) []byte {
	b := make([]byte, n)
	switch d.kind {
	case dataHex:
		if len(d.bytes) != n {
			peer.Must(fmt.Errorf("%d bytes of contents for %d", len(d.bytes), n))
		}
		copy(b, d.bytes)
	case dataPattern:
		peer.FillPattern(b, p.eval(d.seed, false), int(p.eval(d.base, false)&0xffffffff))
	case dataLE64:
		v := p.eval(d.seed, false)
		for i := range min(n, 8) {
			b[i] = byte(v >> (8 * i))
		}
	}
	return b
}

// length is the bytes that contents have by themselves, or -1.
func (d dataSpec) length() int {
	switch d.kind {
	case dataHex:
		return len(d.bytes)
	case dataLE64:
		return 8
	}
	return -1
}
