package shard

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// This file explores all schedules of those who may receive: a keeper, two goroutines that wait,
// each for a signal of its own, the timer, a network, and somebody who breaks off a wait. What seat
// decides is asked of it; the rest follows sit, loop, look, giveUp and takeOver, with a step for
// each access to what is shared. Where lease or pace decide, or a goroutine of the application,
// both ways are tried.

// The actors. The first two wait; their numbers are those of their signals.
const (
	timer = iota + 2
	keeperGoroutine
	network
	breaker
	actors
	nobody = 99
)

// Where an actor is.
type place uint8

const (
	idle place = iota // works; or is not there

	// Of one that waits.
	looksForMine
	asksLease
	sitsDown
	saysWhere
	triesRx
	checks
	willSleep
	hasReason
	blocked
	awake
	receives
	rouses // after receives, the other one
	judges
	unlocksRx
	saysNowhere
	getsUp
	setsTimer
	attends
	parked
	over

	// Of the keeper.
	wantsRx
	kReceives
	kRousesA
	kRousesB
	kDecides
	kBlocked
	givesUp
	leaves
	kSetsTimer
	kUnlocks

	// A call of takeOver, wherever from.
	locks
	begins
	revokes
	spawns

	// Of the timer.
	fires
	acts

	// Of who breaks off.
	findsSeat
	wakesLink
)

var sigs = [2]*Signal{NewSignal(), NewSignal()}

// world is a state. It is comparable.
type world struct {
	seat       seat
	looks      uint32 // since seat.seen: 0 or 1
	background bool
	armed      bool // the timer
	rx, k      uint8
	mail       [2]uint8
	have, set  [2]bool // a completion, and the signal of it
	sits       [2]bool // Signal.seat
	wake       bool    // link.Wake
	broken     bool
	done       [2]bool // what sit returns
	left       uint8   // packets that may come
	at         [actors]place
	back       [actors]place // where a call of takeOver returns to
	result     tick
}

func newWorld(packets uint8) world {
	w := world{background: true, rx: nobody, k: nobody, left: packets}
	w.at[keeperGoroutine] = wantsRx
	return w
}

// takes has an actor call takeOver, and go on at a place.
func (w *world) takes(a int, back place) { w.at[a], w.back[a] = locks, back }

// take receives all there is.
func (w *world) take() {
	w.looks = 1
	for i := range w.mail {
		if w.mail[i] > 0 {
			w.mail[i], w.have[i], w.set[i] = 0, true, true
		}
	}
}

// rouse is Signal.rouse.
func (w *world) rouse(i int) {
	if w.sits[i] && w.seat.rouse() {
		w.wake = true
	}
}

func (w *world) lentTo(i int) bool { return w.seat.heir == sigs[i] }

// step returns what may come of the next step of an actor: nothing if it cannot make one. What
// comes of a run without surprises is first.
func (w world) step(a int) (next []world) {
	to := func(p place) { v := w; v.at[a] = p; next = append(next, v) }
	switch p := w.at[a]; p {
	case locks:
		if w.k != nobody {
			return nil
		}
		w.k = uint8(a)
		if w.background {
			w.k = nobody
			to(w.back[a])
		} else {
			to(begins)
		}
	case begins:
		w.background = true
		to(revokes)
	case revokes:
		if w.seat.revoke() {
			w.wake = true
		}
		to(spawns)
	case spawns:
		w.k, w.at[keeperGoroutine] = nobody, wantsRx
		to(w.back[a])
	default:
		switch a {
		case 0, 1:
			return w.waiter(a, p, to, &next)
		case keeperGoroutine:
			return w.keeper(p, to, &next)
		case timer:
			return w.timer(p, to, &next)
		case network:
			for i := range w.mail {
				if v := w; v.left > 0 {
					v.left--
					v.mail[i]++
					next = append(next, v)
				}
			}
		case breaker:
			switch p {
			case idle:
				w.broken = true
				to(findsSeat)
			case findsSeat:
				if w.seat.rouse() {
					w.wake = true
				}
				to(over)
			}
		}
	}
	return next
}

// waiter is WaitFor, called again and again by one that takes what came.
func (w *world) waiter(a int, p place, to func(place), next *[]world) []world {
	broken := w.broken && a == 0
	switch p {
	case idle: // it works for as long as it likes
		to(looksForMine)
	case looksForMine:
		switch {
		case w.have[a]:
			w.have[a] = false
			to(idle)
		case broken:
			to(over)
		default:
			to(asksLease)
		}
	case asksLease:
		if w.seat.heir != nil {
			to(sitsDown)
		} else {
			to(attends)
		}
	case sitsDown:
		if w.seat.sitDown(sigs[a]) {
			to(saysWhere)
		} else {
			to(attends)
		}
	case saysWhere:
		w.sits[a] = true
		to(triesRx)
	case triesRx:
		if w.rx == nobody {
			w.rx = uint8(a)
			to(checks)
			break
		}
		w.done[a] = false
		to(saysNowhere) // it has tried often enough
	case checks:
		switch {
		case !w.lentTo(a):
			w.done[a] = false
			to(unlocksRx)
		case w.set[a] || broken:
			w.set[a], w.done[a] = false, true
			to(unlocksRx)
		default:
			to(willSleep)
			to(receives) // it looks
		}
	case willSleep:
		if w.seat.sleep() {
			to(hasReason)
		} else {
			to(receives)
		}
	case hasReason:
		if w.set[a] || broken {
			to(receives)
		} else {
			to(blocked)
		}
	case blocked:
		if w.wake || w.mail != [2]uint8{} {
			w.wake = false
			to(awake)
		}
	case awake:
		w.seat.rouse()
		to(receives)
	case receives:
		w.take()
		to(rouses)
	case rouses:
		w.rouse(1 - a)
		to(checks)
		to(judges)
	case judges:
		w.takes(a, checks)
		*next = append(*next, *w)
	case unlocksRx:
		w.rx = nobody
		to(saysNowhere)
	case saysNowhere:
		w.sits[a] = false
		to(getsUp)
	case getsUp:
		if w.seat.getUp(w.seat.seen + w.looks) {
			w.looks = 0
			to(setsTimer)
		} else {
			to(w.afterSit(a))
		}
	case setsTimer:
		if w.k == nobody {
			w.armed = w.armed || !w.background
			to(w.afterSit(a))
		}
	case attends:
		if !w.background && w.seat.heir == nil {
			w.takes(a, parked)
			*next = append(*next, *w)
			break
		}
		to(parked)
	case parked:
		if w.set[a] || broken {
			w.set[a] = false
			to(looksForMine)
		}
	}
	return *next
}

// afterSit is where one goes on that has had the seat.
func (w *world) afterSit(a int) place {
	if done := w.done[a]; done {
		w.done[a] = false
		return looksForMine
	}
	return attends
}

// keeper is loop and giveUp.
func (w *world) keeper(p place, to func(place), next *[]world) []world {
	switch p {
	case wantsRx:
		if w.rx == nobody {
			w.rx = keeperGoroutine
			to(kReceives)
		}
	case kReceives:
		w.take()
		to(kRousesA)
	case kRousesA:
		w.rouse(0)
		to(kRousesB)
	case kRousesB:
		w.rouse(1)
		to(kDecides)
	case kDecides:
		to(kBlocked)
		to(kReceives)
		to(givesUp)
	case kBlocked:
		if w.wake || w.mail != [2]uint8{} {
			w.wake = false
			to(kReceives)
		}
	case givesUp:
		if w.k != nobody {
			break
		}
		w.k = keeperGoroutine
		for i := range sigs { // to one of them
			v := *w
			v.seat.lend(sigs[i], v.seat.seen+v.looks)
			v.looks, v.at[keeperGoroutine] = 0, leaves
			*next = append(*next, v)
		}
	case leaves:
		w.background = false
		to(kSetsTimer)
	case kSetsTimer:
		w.armed = true
		to(kUnlocks)
	case kUnlocks:
		w.k = nobody
		v := *w
		v.rx, v.at[keeperGoroutine] = nobody, idle
		*next = append(*next, v)
	}
	return *next
}

// timer is look.
func (w *world) timer(p place, to func(place), next *[]world) []world {
	switch p {
	case idle:
		if w.armed {
			w.armed = false
			to(fires)
		}
	case fires:
		if w.k != nobody {
			break
		}
		w.k = timer
		if w.background {
			w.k = nobody
			to(idle)
			break
		}
		w.result = w.seat.fired(w.seat.seen + w.looks)
		w.looks = 0
		to(acts)
	case acts:
		switch w.result {
		case tickAgain:
			w.armed, w.k = true, nobody
			to(idle)
		case tickRests:
			w.k = nobody
			to(idle)
		case tickTakeOver:
			w.back[timer] = idle
			to(begins)
		}
	}
	return *next
}

// normal makes states equal that differ in nothing that matters.
func (w world) normal() world {
	w.seat.seen = 0
	for a := range w.back {
		if p := w.at[a]; p < locks || p > spawns {
			w.back[a] = idle
		}
	}
	if w.at[timer] != acts {
		w.result = 0
	}
	return w
}

// check returns what is wrong with a state.
func (w *world) check() string {
	if w.at[keeperGoroutine] != idle && !w.background && w.at[keeperGoroutine] < kSetsTimer {
		return "a keeper works that is not known"
	}
	if w.background && w.at[keeperGoroutine] == idle {
		for a := range w.at {
			if p := w.at[a]; p == revokes || p == spawns {
				return ""
			}
		}
		return "the keeper that is known is not there"
	}
	return ""
}

// settles lets everybody do what is to be done, without surprises, and time pass only when nobody
// can do any more. All that waited is received, and who waits for it has it, before the timer has
// fired more than twice.
func (w world) settles() string {
	w.left = 0
	for ticks, rounds := 0, 0; ; rounds++ {
		if rounds > 100 {
			return "it never comes to rest"
		}
		moved := false
		for a := range actors {
			if a == network || a == timer && w.at[timer] == idle || a == breaker && w.at[breaker] == idle {
				continue
			}
			if a < 2 && w.at[a] == idle {
				continue // it works for long
			}
			for range 3 {
				next := w.step(a)
				if len(next) == 0 {
					break
				}
				w, moved = next[0], true
				w.seat.seen = 0
				if a < 2 && w.at[a] == idle {
					break
				}
			}
		}
		if moved {
			continue
		}
		if ticks++; ticks > 3 || !w.armed {
			break
		}
		if w.mail != [2]uint8{} && ticks > 2 {
			return "a packet waits for more than two periods"
		}
		w = w.step(timer)[0]
	}
	switch {
	case w.mail != [2]uint8{}:
		return "a packet is left"
	case w.at[0] == parked && w.set[0] || w.at[1] == parked && w.set[1] || w.at[0] == blocked && w.set[0] ||
		w.at[1] == blocked && w.set[1]:
		return "a wake-up is lost"
	case w.broken && w.at[breaker] == over && w.at[0] != over && w.at[0] != idle:
		return "a wait that was broken off goes on"
	}
	return ""
}

// explore visits all states that can be reached, and returns how many, and what is wrong with one,
// with the way to it.
func explore(begin world) (n int, wrong string) {
	type from struct {
		before world
		actor  int
	}
	seen := map[world]from{begin.normal(): {}}
	todo := []world{begin.normal()}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		bad := w.check()
		if bad == "" {
			bad = w.settles()
		}
		if bad != "" {
			way := fmt.Sprintf("%s: %+v", bad, w)
			for v := w; v != begin.normal(); {
				f := seen[v]
				v = f.before
				way = fmt.Sprintf("%d at %d\n%s", f.actor, v.at[f.actor], way)
			}
			return len(seen), way
		}
		for a := range actors {
			for _, v := range w.step(a) {
				v = v.normal()
				if _, ok := seen[v]; !ok {
					seen[v] = from{w, a}
					todo = append(todo, v)
				}
			}
		}
	}
	return len(seen), ""
}

func TestSeatInAllSchedules(t *testing.T) {
	seeds.Long(t)
	packets := uint8(2)
	if testing.Short() {
		packets = 1
	}
	n, wrong := explore(newWorld(packets))
	require.Empty(t, wrong)
	t.Logf("%d states", n)
	require.Greater(t, n, 10_000)
}
