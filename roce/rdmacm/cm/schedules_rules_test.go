package cm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/ib/mad"
)

// The rules that hold in every schedule. The comments say what would be wrong.

// letters stand for events.
var letters = map[EventType]string{
	EventRequest: "Q", EventReply: "P", EventEstablished: "E", EventRejected: "R", EventUnreachable: "U",
	EventDisconnected: "D", EventTimewaitExit: "T", EventResolved: "S",
}

// mayFollow are the events that may come next.
var mayFollow = map[byte]string{
	0: "QPRUS", 'Q': "ERUD", 'P': "DR", 'E': "D", 'R': "", 'U': "", 'D': "T", 'T': "", 'S': "",
}

// event takes an event of an end.
func (w *twoEnds) event(end int, e *Event) error {
	who := 'a' + end
	i := slices.IndexFunc(w.conns, func(r *record) bool { return r.c == e.Conn })
	w.logf("    %c: %v\n", who, e.Type)
	if e.Type == EventRequest {
		if i >= 0 {
			return fmt.Errorf("%c: a request of a connection that it has", who)
		}
		return w.request(end, e)
	}
	if i < 0 {
		return fmt.Errorf("%c: %v of a connection that it does not have", who, e.Type)
	}
	r := w.conns[i]
	last := byte(0)
	if n := len(r.events); n > 0 {
		last = r.events[n-1]
	}
	l := letters[e.Type]
	if r.destroyed {
		return fmt.Errorf("%c: %v of a connection that it has destroyed", who, e.Type)
	}
	if r.dead {
		return fmt.Errorf("%c: %v of a process that is dead", who, e.Type)
	}
	if !strings.Contains(mayFollow[last], l) || r.passive && strings.Contains("PS", l) || !r.passive && l == "E" {
		return fmt.Errorf("%c: %v after %q", who, e.Type, r.events)
	}
	r.events += l
	return w.believe(r, e)
}

// request takes a new request.
func (w *twoEnds) request(end int, e *Event) error {
	r := &record{c: e.Conn, end: end, key: string(e.Private[:2]), passive: true, events: "Q"}
	asked := slices.ContainsFunc(w.conns, func(o *record) bool { return o.end != end && !o.passive && o.key == r.key })
	if !asked {
		return fmt.Errorf("%c: a request %q that nobody made", 'a'+end, r.key)
	}
	for _, o := range w.conns {
		// While it is remembered it must not reach the application again.
		if o.end == end && o.passive && o.key == r.key && !o.dead && o.c.state != Idle {
			return fmt.Errorf("%c: request %q twice, and the first one is in %v", 'a'+end, r.key, o.c.state)
		}
	}
	w.conns = append(w.conns, r)
	return nil
}

// believe checks that what an event says of the peer is so.
func (w *twoEnds) believe(r *record, e *Event) error {
	who := 'a' + r.end
	var peers []*record // with the same request
	for _, o := range w.conns {
		if o.end != r.end && o.key == r.key && o.passive != r.passive {
			peers = append(peers, o)
		}
	}
	some := func(f func(o *record) bool) bool { return slices.ContainsFunc(peers, f) }
	used := w.used()
	switch e.Type {
	case EventReply:
		if string(e.Private[:2]) != r.key || !some(func(o *record) bool { return o.accepted && paired(r, o) }) {
			return fmt.Errorf("%c: a reply to %q that nobody accepted", who, r.key)
		}
		if some(func(o *record) bool { return o.refused && !o.accepted }) && len(peers) == 1 {
			return fmt.Errorf("%c: a reply to %q, which was refused", who, r.key)
		}
	case EventEstablished:
		if !some(func(o *record) bool { return o.readied && paired(r, o) }) {
			return fmt.Errorf("%c: %q is established, and the peer never was ready", who, r.key)
		}
		for _, o := range w.conns {
			if o != r && o.end == r.end && o.key == r.key && strings.Contains(o.events, "E") {
				return fmt.Errorf("%c: %q is established twice", who, r.key)
			}
		}
	case EventUnreachable:
		// Each try that had no answer was lost on one of the ways, or the time ran while it was on
		// it. While the application is slow it is asked for patience, and the tries begin anew.
		least := w.p.tries
		if r.passive {
			least = min(least, quietTries)
		}
		for _, o := range w.conns { // what asks with the numbers of one that died may get the answer to that one
			if o.end == r.end && o.dead {
				used++
			}
		}
		if !e.NoPort && used < least && !some(func(o *record) bool { return o.dead }) {
			return fmt.Errorf("%c: %q is unreachable after %d faults", who, r.key, used)
		}
	case EventRejected:
		listening := w.ends[1-r.end].script.listens == atOnce && !w.ends[1-r.end].script.unlistens
		switch {
		case some(func(o *record) bool {
			return o.refused || o.destroyed || o.dead || r.passive && o.closing || strings.ContainsAny(o.events, "RU")
		}):
		case !r.passive && e.Reason == mad.RejectInvalidServiceID && !listening:
		case !r.passive && e.Reason == mad.RejectConsumer && w.ends[1-r.end].closed: // it waited in the queue
		case e.Reason == mad.RejectStaleConnection && w.mayBeStale(r):
		case r.passive && e.Reason == mad.RejectInvalidCommID && some(func(o *record) bool { return !paired(o, r) }):
			// An old REQ that came late.
		default:
			return fmt.Errorf("%c: %q is rejected with %v, and nobody did that", who, r.key, e.Reason)
		}
	case EventDisconnected:
		switch {
		case r.closing:
		case some(func(o *record) bool {
			return o.closing || o.refused || o.destroyed || o.dead || strings.ContainsAny(o.events, "RU")
		}):
		default:
			return fmt.Errorf("%c: %q is disconnected, and nobody did that", who, r.key)
		}
	case EventResolved:
		switch e.SIDRRep.Status {
		case mad.SIDRValid:
			if string(e.Private[:2]) != r.key || !some(func(o *record) bool { return o.accepted }) {
				return fmt.Errorf("%c: an answer to %q that nobody gave", who, r.key)
			}
		case mad.SIDRRejected:
			if !some(func(o *record) bool { return o.refused || o.destroyed }) && !w.ends[1-r.end].closed {
				return fmt.Errorf("%c: lookup %q is rejected, and nobody did that", who, r.key)
			}
		case mad.SIDRUnsupportedService:
			if w.ends[1-r.end].script.listens == atOnce && !w.ends[1-r.end].script.unlistens {
				return fmt.Errorf("%c: lookup %q finds no service", who, r.key)
			}
		default:
			return fmt.Errorf("%c: lookup %q: %v", who, r.key, e.SIDRRep.Status)
		}
	}
	return nil
}

// used returns how many faults there were that can keep an answer away.
func (w *twoEnds) used() int {
	f, l := w.p.faults, w.left
	return int(f.lose - l.lose + f.early - l.early + f.slow - l.slow)
}

// mayBeStale reports whether the peer may hold that a number is in use that is used again.
func (w *twoEnds) mayBeStale(r *record) bool {
	if w.p.faults.dup > w.left.dup { // a duplicate of what it knew
		return true
	}
	e, peer := w.ends[r.end], w.ends[1-r.end]
	return e.script.sameQPN && e.asked > 1 || e.script.ids > 0 && e.asked > 1 || peer.script.dies > 0 || w.used() > 0
}

// checkEnd checks what always holds of an agent.
func (w *twoEnds) checkEnd(i int) error {
	e := w.ends[i]
	for x, ok := e.PollWill(); ok; x, ok = e.PollWill() {
		if x.Live {
			e.wills[x.ID] = true
		} else {
			delete(e.wills, x.ID)
		}
	}
	live := 0
	for id, c := range e.byID {
		if c.gone || c.localID != id {
			return fmt.Errorf("%c: the table has a connection that is gone", 'a'+i)
		}
		if c.state.hasWill() {
			live++
			if !e.wills[id] {
				return fmt.Errorf("%c: a connection in %v without a will", 'a'+i, c.state)
			}
		}
	}
	if live != len(e.wills) {
		return fmt.Errorf("%c: %d wills, and %d connections that want one", 'a'+i, len(e.wills), live)
	}
	n := e.Counts()
	if n.Conns < 0 || n.Waiting < 0 || n.HalfOpen < 0 || n.HalfBytes < 0 {
		return fmt.Errorf("%c: counts below 0: %+v", 'a'+i, n)
	}
	return nil
}

// Final implements schedules.World.
func (w *twoEnds) Final() error {
	if took := w.now - w.began; took > 400e9 {
		return fmt.Errorf("it takes %d s", took/1e9)
	}
	if w.p.lookNs > 0 {
		if err := w.lookAround(); err != nil {
			return err
		}
	}
	up := [2]int{}
	for _, r := range w.conns {
		who := 'a' + r.end
		if r.dead {
			continue
		}
		if r.c.state == Established {
			up[r.end]++
			alive := func(o *record) bool { return !o.dead && o.c.state == Established && paired(r, o) }
			if !slices.ContainsFunc(w.conns, alive) && !w.excused(r) {
				return fmt.Errorf("%c believes that it is connected (%q, %q), and it is not", who, r.key, r.events)
			}
			continue
		}
		if !r.c.gone || r.c.state != Idle {
			return fmt.Errorf("%c: %q is left in %v", who, r.key, r.c.state)
		}
		if !r.over() && !w.p.lookup {
			return fmt.Errorf("%c never learns what has become of %q: %q", who, r.key, r.events)
		}
		if w.p.lookup && !r.passive && !r.over() {
			return fmt.Errorf("%c never learns what has become of lookup %q", who, r.key)
		}
		if exits := strings.Count(r.events, "T"); !r.destroyed && (exits == 1) != r.c.up {
			return fmt.Errorf("%c: %q: %d ends of TIMEWAIT, established: %t", who, r.events, exits, r.c.up)
		}
	}
	for i, e := range w.ends {
		if l, ok := e.PollListener(); ok {
			return fmt.Errorf("%c: a listener at %v is offered at the end", 'a'+i, l.service)
		}
		n := e.Counts()
		want := Counts{Conns: up[i], Listeners: n.Listeners}
		if up[i] > 0 {
			want.Tables = n.Tables
		}
		if n != want {
			return fmt.Errorf("%c: left at the end: %+v", 'a'+i, n)
		}
		if len(e.wills) != up[i] {
			return fmt.Errorf("%c: %d wills of %d connections", 'a'+i, len(e.wills), up[i])
		}
	}
	return nil
}

// excused reports whether an end cannot know that its connection is over. Nobody acknowledges a
// REJ: if it is lost, and the RTU was, too, or came after TIMEWAIT, there is nothing more to come.
// It is found out by what the queue pair sends, and by questions (Config.LookNs).
func (w *twoEnds) excused(r *record) bool {
	if w.p.lookNs > 0 {
		return false
	}
	died := slices.ContainsFunc(w.conns, func(o *record) bool { return o.dead && o.end != r.end && o.key == r.key })
	return died || w.used() >= 2
}

// lookAround lets both ends ask each other, until they must have found out.
func (w *twoEnds) lookAround() error {
	for range 6 {
		at, ends := w.timer()
		if ends == 0 {
			return nil
		}
		w.now = max(w.now, at)
		for i, e := range w.ends {
			if t, ok := e.NextTimeout(); ok && t <= w.now {
				w.logf("at %d ms %c looks around\n", (w.now-w.began)/1e6, 'a'+i)
				e.HandleTimeout(w.now)
			}
			if err := w.settle(); err != nil {
				return err
			}
		}
		for again := true; again; {
			again = false
			for i, e := range w.ends {
				if len(e.in) > 0 {
					again = true
					if err := w.Do(step{kind: stepDeliver, end: uint8(i)}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
