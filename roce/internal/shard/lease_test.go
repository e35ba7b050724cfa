package shard

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turn is a batch that wakes goroutines.
func (l *lease) turn(packets int, woken ...*Signal) {
	for _, s := range woken {
		l.woke(s)
	}
	l.handled(packets)
}

func TestLeaseIsForAConversation(t *testing.T) {
	a, b := NewSignal(), NewSignal()
	var l lease
	l.turn(1, a)
	for range leaseTurns {
		require.False(t, l.lends())
		l.turn(0) // a timer
		l.turn(2) // acknowledgements
		l.turn(1, a)
	}
	require.True(t, l.lends())
	l.begin()
	require.True(t, l.is(a))
	require.False(t, l.is(b))
	require.False(t, l.is(nil))

	l.turn(1, b)
	require.False(t, l.over(), "one for another now and then")
	for range leaseTurns / setback {
		l.turn(1, a)
		l.turn(1, b)
		l.turn(1, a, b)
	}
	require.True(t, l.over())
	l.end(l.over())
	require.False(t, l.lent())

	l.turn(1, a)
	for range 2*leaseTurns - 1 {
		l.turn(1, a)
	}
	require.False(t, l.lends(), "it takes twice as many after that")
	l.turn(1, a)
	require.True(t, l.lends())
}

func TestLeaseIsNotForStreams(t *testing.T) {
	a := NewSignal()
	for name, stream := range map[string]func(*lease){
		"large batches":   func(l *lease) { l.turn(turnPackets+1, a) },
		"posted together": func(l *lease) { l.streams() },
		"posted one behind the other": func(l *lease) {
			for range turnPackets + 1 {
				l.posted()
			}
		},
		"other means": func(l *lease) { l.turn(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var l lease
			for range 100 {
				for range 3 {
					l.turn(1, a)
				}
				stream(&l)
				require.False(t, l.lends())
			}
		})
	}
}

// room is a model of those who may sit in the seat: a keeper with its timer, goroutines that wait and work by turns. It follows keeper.go and seat.go.
type room struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Duration
	lease   lease
	keeper  bool // has the seat
	sitter  int  // who sits, -1: nobody
	sigs    []*Signal
	until   []time.Duration // when a goroutine waits again; 0: it does
	seen    uint32
	turns   uint32
	tick    time.Duration // 0: the timer rests
	mail    []parcel
	longest time.Duration
}

type parcel struct {
	at time.Duration
	to int
}

// wait has a goroutine wait, and sit if it may.
func (r *room) wait(i int) {
	r.until[i] = 0
	if r.lease.is(r.sigs[i]) && !r.keeper && r.sitter < 0 {
		r.sitter = i
		r.receive()
	}
}

// receive handles what is there, if somebody receives.
func (r *room) receive() {
	if !r.keeper && r.sitter < 0 || len(r.mail) == 0 {
		return
	}
	n := len(r.mail) // fewer than a batch
	mail := r.mail[:n]
	r.mail = r.mail[n:]
	r.turns++
	for _, p := range mail {
		r.longest = max(r.longest, r.now-p.at)
		if r.until[p.to] == 0 {
			r.lease.woke(r.sigs[p.to])
		}
	}
	r.lease.handled(n)
	over, lends := r.lease.over(), r.lease.lends()
	for _, p := range mail {
		if r.until[p.to] != 0 {
			continue
		}
		work := time.Duration(r.rng.IntN(20)+1) * time.Microsecond
		if r.rng.IntN(200) == 0 {
			work = time.Duration(r.rng.IntN(10_000)) * time.Microsecond
		}
		r.until[p.to] = r.now + work
		if r.sitter == p.to {
			r.getUp()
		}
	}
	switch {
	case over:
		r.takeOver(true)
	case lends && r.keeper:
		r.keeper = false
		r.lease.begin()
		r.seen, r.tick = r.turns, r.now+leasePeriod
	}
	r.receive()
}

func (r *room) getUp() {
	r.sitter = -1
	if r.tick == 0 && !r.keeper {
		r.seen, r.tick = r.turns, r.now+leasePeriod
	}
}

func (r *room) takeOver(missed bool) {
	require.False(r.t, r.keeper, "two keepers")
	r.lease.end(missed)
	r.keeper, r.sitter, r.tick = true, -1, 0
}

// ticks is the timer: see look.
func (r *room) ticks() {
	switch {
	case r.keeper:
		r.tick = 0
	case r.turns != r.seen:
		r.seen, r.tick = r.turns, r.now+leasePeriod
	case r.sitter >= 0:
		r.tick = 0
	default:
		r.takeOver(len(r.mail) > 0)
		r.receive()
	}
}

// pass lets time pass, and everything happen in order.
func (r *room) pass(to time.Duration) {
	for {
		next, who := to, -2
		if r.tick != 0 && r.tick <= next {
			next, who = r.tick, -1
		}
		for i, at := range r.until {
			if at != 0 && at <= next {
				next, who = at, i
			}
		}
		r.now = next
		switch who {
		case -2:
			return
		case -1:
			r.ticks()
		default:
			r.wait(who)
		}
	}
}

// Whatever happens somebody receives: no packet waits longer than two periods, and there is one who does at a time.
func TestLeaseLeavesNothing(t *testing.T) {
	seeds := 100_000
	if testing.Short() {
		seeds = 5_000
	}
	lent := 0
	for seed := range seeds {
		r := room{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 1)), now: 1, keeper: true, sitter: -1}
		for range 1 + r.rng.IntN(3) {
			r.sigs = append(r.sigs, NewSignal())
		}
		r.until = make([]time.Duration, len(r.sigs))
		odd := r.rng.IntN(100) // of so many packets one is for another goroutine
		for range 150 {
			pause := r.rng.IntN(30)
			if r.rng.IntN(100) == 0 {
				pause = r.rng.IntN(3000)
			}
			r.pass(r.now + time.Duration(pause)*time.Microsecond)
			to := 0
			if r.rng.IntN(odd+1) == 0 {
				to = r.rng.IntN(len(r.sigs))
			}
			r.mail = append(r.mail, parcel{r.now, to})
			r.receive()
			if r.lease.lent() {
				lent++
			}
		}
		for range 3 { // nothing comes any more
			r.pass(r.now + leasePeriod)
		}
		require.Empty(t, r.mail, "seed %d: packets that nobody receives", seed)
		require.LessOrEqual(t, r.longest, 2*leasePeriod, "seed %d", seed)
	}
	require.Greater(t, lent, seeds, "the seat was lent")
}
