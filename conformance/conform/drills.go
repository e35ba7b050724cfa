package conform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/trace"
)

// drillsGroup is the group of package drill's scripts. It is the last one, because the drills
// speak for themselves, from the port that this side's device had before.
const drillsGroup = "drills"

// quickDrills is the share of the drills that a quick run plays.
const quickDrills = 4

// scripts are the drills to play.
func (o *Options) scripts() []*drill.Drill {
	if len(o.Drills) > 0 {
		return o.Drills
	}
	return drill.List()
}

// script returns one by its name.
func (o *Options) script(name string) *drill.Drill {
	list := o.scripts()
	return list[slices.IndexFunc(list, func(d *drill.Drill) bool { return d.Name == name })]
}

// drillRows are the rows of all drills that were asked for.
func (o *Options) drillRows(kernel, link string) (rows []matrix.Row) {
	for i, d := range o.scripts() {
		if o.Quick && len(o.Drills) == 0 && i%quickDrills != 0 {
			continue
		}
		row := matrix.Row{Kernel: kernel, Group: drillsGroup, Op: d.Name, Role: "peer", Link: link,
			Authority: authorities(d), Feature: featureOfDrill(d), Title: d.Title}
		if len(o.Drills) > 0 {
			row.Script = filepath.Base(d.File)
		}
		if o.wants(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// authorities are what a drill rests on, in one line.
func authorities(d *drill.Drill) string {
	var all []string
	for _, a := range d.Authority {
		switch a.Kind {
		case drill.SeenRxe:
			all = append(all, "seen on rxe "+a.Text)
		case drill.ConnectX:
			all = append(all, "seen on ConnectX "+a.Text)
		default:
			all = append(all, a.Text)
		}
	}
	return strings.Join(all, "; ")
}

// drills plays the scripts against the peer. On loopback, where there are addresses enough, several
// are played at a time: they mostly wait for nothing to come.
func (o *Options) drills(ctx context.Context, env *matrix.Env, ref *peer.Agent) error {
	rows := o.drillRows(env.Kernel, env.Link)
	ready := make([]chan struct{}, len(rows))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	v4 := forDrills(env.Subject.Addr(peer.V4), ref.Addr(peer.V4))
	var next atomic.Int64
	var wg sync.WaitGroup
	for lane := range min(drillLanes(env.Subject), len(rows)) {
		wg.Go(func() {
			target, err := o.drillTarget(env, ref, lane)
			if err == nil {
				defer target.Close()
			}
			for i := next.Add(1) - 1; int(i) < len(rows); i = next.Add(1) - 1 {
				switch {
				case err != nil:
					rows[i].Result, rows[i].Detail = matrix.Fail, err.Error()
				case !v4 && !slices.Contains(o.script(rows[i].Op).Needs, drill.NeedIPv6):
					rows[i].Result, rows[i].Detail = matrix.Skip, "the one IPv4 address here is the peer's as well"
				case ctx.Err() == nil:
					rows[i] = o.oneDrill(ctx, env, target, rows[i])
				}
				close(ready[i])
			}
		})
	}
	for i := range rows {
		<-ready[i]
		if ctx.Err() == nil {
			env.Report.Add(rows[i])
		}
	}
	wg.Wait()
	return ctx.Err()
}

const mostDrillLanes = 8

func drillLanes(subject peer.Peer) int {
	if a := subject.Addr(peer.V4); a.IsValid() && a.IsLoopback() {
		return mostDrillLanes
	}
	return 1
}

// drillTarget makes a target at addresses here; those of lanes but the first are near the first
// one's.
func (o *Options) drillTarget(env *matrix.Env, ref *peer.Agent, lane int) (drill.Target, error) {
	cfg := drill.PeerConfig{
		Name: ref.Name(), Profile: drillProfile(ref), Peer: ref, RxeFlush: ref.Profile() == peer.ProfileRXE,
		Local: map[peer.Family]netip.Addr{}, Stranger: map[peer.Family]netip.Addr{},
	}
	if name := o.link(); name != peer.DefaultLink {
		cfg.Link = func(addrs []netip.Addr) (link.Link, error) { return peer.OpenBareLink(name, addrs) }
	}
	for _, f := range []peer.Family{peer.V4, peer.V6} {
		if a := env.Subject.Addr(f); forDrills(a, ref.Addr(f)) {
			cfg.Local[f] = a
		}
	}
	if local := cfg.Local[peer.V4]; local.Is4() && local.IsLoopback() {
		if local == ref.Addr(peer.V4) {
			lane += mostDrillLanes
		}
		cfg.Local[peer.V4], cfg.Stranger[peer.V4] = beside(local, 2*lane), beside(local, 2*lane+1)
	}
	return drill.NewPeer(cfg)
}

// forDrills reports whether drills can be at an address here, or beside it. At one that is the
// peer's as well its device has the port that they need.
func forDrills(here, peers netip.Addr) bool {
	return here.IsValid() && (here != peers || here.Is4() && here.IsLoopback())
}

// beside is another loopback address.
func beside(a netip.Addr, n int) netip.Addr {
	b := a.As4()
	b[1] ^= byte(n)
	return netip.AddrFrom4(b)
}

// A drill in which a packet did not come within a short time, of a timer that is looked at, is
// played again: the peer's machine may have had no time. One that waits for long would fail again
// as well.
const (
	lateTries = 3
	lateMost  = 5 * time.Second
)

// oneDrill plays a drill.
func (o *Options) oneDrill(ctx context.Context, env *matrix.Env, target drill.Target, row matrix.Row) matrix.Row {
	if err := env.Tolerant.Given(); err != nil {
		row.Result, row.Detail = matrix.Fail, err.Error()
		return row
	}
	opt := drill.Options{Stop: len(o.Drills) > 0} // a script that was asked for by name
	r := drill.Run(ctx, o.script(row.Op), target, opt)
	for try := 1; try < lateTries && r.Late() && r.Took < lateMost; try++ {
		row.Starved++
		row.Retried = fmt.Sprintf("try %d: %s", try, r.Text)
		r = drill.Run(ctx, o.script(row.Op), target, opt)
	}
	row.Detail, row.Expected, row.Came, row.Ladder = r.Text, r.Expected, r.Came, r.Ladder
	switch r.Verdict {
	case drill.Pass:
		row.Result, row.Expected, row.Came, row.Ladder = matrix.Pass, "", "", ""
	case drill.Deviates:
		row.Result, row.Deviates = matrix.Pass, r.Text
		row.Detail = "known to deviate: " + r.Text
	case drill.Skip:
		row.Result = matrix.Skip
	default:
		row.Result, row.Known = matrix.Fail, r.KnownText()
		if o.keeper != nil {
			row = o.keeper.keepDatagrams(row, r.Packets)
		}
	}
	if r.Lost {
		env.Tolerant.Lost(errors.New(r.Text))
	} else {
		env.Tolerant.Found()
	}
	return row
}

// drillProfile is the profile of a peer, with rxe's version, which drills tell apart.
func drillProfile(ref *peer.Agent) drill.Profile {
	p := drill.Profile(ref.Profile())
	var major, minor int
	if n, _ := fmt.Sscanf(ref.Kernel(), "%d.%d", &major, &minor); n == 2 && p == drill.Rxe {
		return drill.Profile(fmt.Sprintf("%s-%d.%d", p, major, minor))
	}
	return p
}

// untried reports whether a peer is a version of rxe that nobody has tried, or of which it is not
// known.
func untried(ref *peer.Agent) bool {
	own := drillProfile(ref)
	return own == drill.Rxe || !drill.Tried(own)
}

// keepDatagrams is keep for the packets of a drill, which goes between them and the peer by itself.
func (k *keeper) keepDatagrams(row matrix.Row, packets []drill.Datagram) matrix.Row {
	for i, d := range packets {
		if d.Sent && d.BadICRC {
			row.Detail += fmt.Sprintf("\nframe %d of its packets has a wrong ICRC because the drill wants it so", i+1)
		}
	}
	if !k.drawn() {
		row.Ladder = ""
	}
	return k.write(row, len(packets), func(w *trace.Writer) error {
		for _, d := range packets {
			head := switchlink.SeenHeaders
			if d.Sent {
				head = switchlink.SentHeaders
			}
			if err := w.Packet(k.sw.Start().Add(d.At).UnixNano(), d.Sent,
				head(d.Src, d.Dst, d.SrcPort, d.TOS, d.Payload), d.Payload); err != nil {
				return err
			}
		}
		return nil
	})
}
