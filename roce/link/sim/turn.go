package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// scheduler lets the goroutines of a [Test] act one at a time. It has a goroutine of its own, the
// driver, which does one thing whenever all others wait: it gives a turn to one that asks for it,
// lets the next event of the fabric happen, or lets time pass until then.
type scheduler struct {
	f     *Fabric
	start time.Time     // of the bubble's clock, when the fabric's is 0
	kick  chan struct{} // there is a turn to give, or a new event
	done  chan struct{} // closed when the driver has ended
	dog   *watchdog

	mu       sync.Mutex
	arrived  []*turn // asked since the driver has looked, in any order
	queue    []*turn // in the order of their turns
	shuffle  *rand.Rand
	family   family
	stopping bool
	stopped  bool
}

// turn is a goroutine's request for a turn.
type turn struct {
	told chan order
	who  *goroutine
	gone bool // under scheduler.mu: has stopped waiting
}

// order is the driver's answer to a goroutine that asks.
type order uint8

const (
	proceed  order = iota
	identify       // find out which goroutine you are, for there are others
)

func newScheduler(f *Fabric, w *watchdog) *scheduler {
	s := &scheduler{f: f, start: time.Now(), kick: make(chan struct{}, 1), done: make(chan struct{}), dog: w,
		family: family{}}
	if f.cfg.Shuffle {
		s.shuffle = rand.New(rand.NewPCG(f.cfg.Seed, 0xD1B54A32D192ED03))
	}
	return s
}

// now returns the fabric's time: that of the bubble.
func (s *scheduler) now() int64 { return int64(time.Since(s.start)) }

// wake makes the driver look.
func (s *scheduler) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// turn blocks until it is the caller's turn, or quit is closed.
func (s *scheduler) turn(quit <-chan struct{}) {
	t := &turn{told: make(chan order)}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.arrived = append(s.arrived, t)
	s.mu.Unlock()
	s.wake()
	for {
		select {
		case o := <-t.told:
			if o == proceed {
				return
			}
			s.mu.Lock()
			t.who = s.family.self()
			s.mu.Unlock()
		case <-quit:
			s.mu.Lock()
			t.gone = true
			s.mu.Unlock()
			return
		}
	}
}

// drive is the driver.
func (s *scheduler) drive() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var collect collector
	for {
		synctest.Wait()
		s.dog.steps.Add(1)
		collect.step()
		select {
		case <-s.kick: // the loop handles it now
		default:
		}
		if s.giveTurn() {
			continue
		}
		if s.end() {
			return
		}
		switch at, ok := s.f.next(); {
		case !ok:
			<-s.kick
		case at <= s.now():
			s.f.step(at)
		default:
			timer.Reset(time.Duration(at - s.now()))
			select {
			case <-timer.C:
			case <-s.kick:
			}
		}
	}
}

// giveTurn gives a goroutine its turn; it reports whether there was one.
func (s *scheduler) giveTurn() bool {
	s.mu.Lock()
	gone := func(t *turn) bool { return t.gone }
	arrived := slices.DeleteFunc(s.arrived, gone)
	s.arrived = nil
	s.queue = slices.DeleteFunc(s.queue, gone)
	s.mu.Unlock()
	// Their order of arrival is random.
	if len(arrived) > 1 {
		for _, t := range arrived {
			t.told <- identify
		}
		synctest.Wait()
		slices.SortFunc(arrived, func(a, b *turn) int { return a.who.compare(b.who) })
	}
	s.queue = append(s.queue, arrived...)
	if len(s.queue) == 0 {
		return false
	}
	i := 0
	if s.shuffle != nil {
		i = s.shuffle.IntN(len(s.queue))
	}
	t := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	t.told <- proceed
	return true
}

// end reports whether the driver must end; if so, further turns are granted at once.
func (s *scheduler) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = s.stopping && len(s.arrived) == 0
	return s.stopped
}

// stop ends the driver once no turns are left to give, without letting further time pass, and
// returns then.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.wake()
	<-s.done
}
