package captures

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// Stage is where scenes are played: two peers on a wire.
type Stage struct {
	Wire *ether.Switch
	// Peers are requester and responder; open makes them, because goroce's devices are tuned for a
	// scene.
	Open func(s *Scene) (peers [2]peer.Peer, done func(), err error)
	// Hosts run programs at either end, while no device is open.
	Hosts [2]matrix.Host
	Names [2]string // "rxe 6.1", "rxe 6.12" or "goroce"
	Addrs [2]netip.Addr
	Ports [2]string
}

// tries is how often a scene is played until it went as planned: a guest that stands still makes
// requesters send again what nobody has lost.
const tries = 6

// Record plays a scene. v is nil if it cannot be played there; then the record says why.
func (s *Stage) Record(ctx context.Context, sc *Scene) (r *Record, v *ether.Views, err error) {
	for try := 1; ; try++ {
		r, v, err = s.record(ctx, sc)
		if err == nil || ctx.Err() != nil || try == tries || !errors.Is(err, errUnplanned) {
			return r, v, err
		}
	}
}

func (s *Stage) rxe() (is [2]bool) {
	for i, n := range s.Names {
		is[i] = n != "goroce"
	}
	return is
}

// Lacks says why a scene cannot be made here.
func (s *Stage) Lacks(sc *Scene) string {
	if sc.Lacks == nil {
		return ""
	}
	return sc.Lacks(s.rxe())
}

func (s *Stage) record(ctx context.Context, sc *Scene) (*Record, *ether.Views, error) {
	t := &take{wire: s.Wire, addrs: s.Addrs, ports: s.Ports, marks: map[*ether.Rule]bool{}, calm: map[uint32]bool{}}
	var play func() error
	switch {
	case sc.call != nil:
		defer t.close()
		play = func() error { return t.dial(ctx, sc.call, s.Hosts) }
	default:
		peers, done, err := s.Open(sc)
		if err != nil {
			return nil, nil, err
		}
		defer done()
		defer t.close()
		if err := t.open(ctx, peers); err != nil {
			return nil, nil, err
		}
		l := link{typ: peer.RC, mtu: [2]int{mtu, mtu}, timeout: calm, retry: 7, rnrRetry: 7}
		if sc.link != nil {
			sc.link(&l)
		}
		if err := t.connect(l); err != nil {
			return nil, nil, err
		}
		play = func() error { return peer.Steps(func() { sc.play(t) }) }
	}
	a, b := s.Addrs[0], s.Addrs[1]
	v := s.Wire.Views(s.Wire.Port(s.Ports[0]), s.Wire.Port(s.Ports[1]), func(p *ether.Packet) bool {
		return p.Src == a && p.Dst == b || p.Src == b && p.Dst == a
	})
	err := play()
	if err == nil {
		s.settle(v)
	}
	v.Stop()
	if err != nil {
		return nil, nil, fmt.Errorf("%s, %s to %s: %w", sc.Name, s.Names[0], s.Names[1], err)
	}
	if err := planned(v, t.told, sc.call != nil, t.isCalm); err != nil {
		return nil, nil, err
	}
	r := &Record{Scene: sc.Name, Requester: s.Names[0], Responder: s.Names[1], Addrs: s.Addrs, Fault: sc.Fault}
	var seen [2]bool
	r.Injected, seen = injected(v, t.told)
	for i := range seen {
		if seen[i] {
			r.Want[i] = sc.Want[i]
		}
	}
	return r, v, nil
}

// settle waits until no packet has come for a while: the last answers are on their way.
func (s *Stage) settle(v *ether.Views) {
	const quiet = 100 * time.Millisecond
	for n := -1; n != len(v.Shots(0)); time.Sleep(quiet) {
		n = len(v.Shots(0))
	}
}

var errUnplanned = errors.New("the hosts did not do what they do when nothing disturbs them")

// planned checks that before the fault no request was sent twice, nor one after it that nothing
// happens to, nor any at all where the fault is one of RDMA-CM: then a host has stood still, and
// its capture has more in it than what was injected.
func planned(v *ether.Views, told func(*ether.Rule) bool, call bool, calm func(*ether.Packet) bool) error {
	shots := v.Shots(AtRequester)
	acts := v.Acts()
	before := len(shots)
	if i := slices.IndexFunc(acts, func(a *ether.Act) bool { return told(a.Rule) }); i >= 0 {
		before = acts[i].Before[AtRequester]
	}
	seen := map[string]bool{}
	for i, x := range shots {
		p, ok := ether.Decode(x.Frame)
		if !ok || ether.IsResponse(p.Opcode) {
			continue
		}
		key := fmt.Sprint(p.Dst, p.QPN, p.PSN, p.Opcode)
		attr, tid, cm := p.CM()
		if cm {
			key = fmt.Sprint(p.Dst, attr, tid)
		}
		disturbed := i >= before && (cm || !call && !calm(p))
		if seen[key] && !disturbed {
			return fmt.Errorf("%w: %v was sent twice", errUnplanned, p)
		}
		seen[key] = true
	}
	return nil
}
