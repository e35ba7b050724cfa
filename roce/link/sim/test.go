package sim

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f as a test on a fabric whose goroutines take turns, in a bubble of package
// testing/synctest: what happens depends on the seed alone, even if several goroutines wait for the
// network, and time is virtual for all that f does. See "Tests of applications" in the package
// comment.
//
// If the test fails, its seed is logged. A test that leaves goroutines behind, or in which all wait
// for ever, fails, and the other tests of the binary go on.
func Test(t *testing.T, cfg Config, f func(t *testing.T, net *Fabric)) {
	t.Helper()
	inBubble(t, cfg, f, func(net *Fabric, w *watchdog) (stop func()) {
		net.schedule(w)
		return net.sched.stop
	})
}

// inBubble runs f on a fabric; begin starts what drives it, and returns the function that stops it.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, net *Fabric),
	begin func(net *Fabric, w *watchdog) (stop func())) {
	t.Helper()
	defer oneCPU()()
	defer collectBetween()()
	var w watchdog
	defer w.start()()
	defer stuck(t)
	synctest.Test(t, func(t *testing.T) {
		net := New(cfg)
		stop := begin(net, &w)
		// Registered first, called last.
		t.Cleanup(func() {
			stop()
			if t.Failed() {
				t.Logf("seed %d", cfg.Seed)
			}
		})
		f(t, net)
	})
}

// Run is Test outside of a test, for programs and benchmarks. f must not call runtime.Goexit.
func Run(cfg Config, f func(net *Fabric)) {
	defer oneCPU()()
	defer collectBetween()()
	var w watchdog
	defer w.start()()
	synctest.Test(new(testing.T), func(*testing.T) {
		net := New(cfg)
		net.schedule(&w)
		f(net)
		net.sched.stop()
	})
}

// schedule makes goroutines take turns from now on.
func (f *Fabric) schedule(w *watchdog) {
	f.sched = newScheduler(f, w)
	f.clock = f.sched
	go f.sched.drive()
}

// Turn blocks until all other goroutines wait and it is the caller's turn. Calls that wait for the
// network do this by themselves. A goroutine that was woken together with others by something else,
// and goes on with calls that do not wait, calls Turn to get its place in an order that depends on
// the seed. It is for a [Test], and does nothing otherwise.
func (f *Fabric) Turn() { f.turn(nil) }

func (f *Fabric) turn(quit <-chan struct{}) {
	if f.sched != nil {
		f.sched.turn(quit)
	}
}

// cpus counts the users that need one CPU.
var cpus struct {
	sync.Mutex
	users, before int
}

// oneCPU lets goroutines run on one CPU until the returned function is called. Then their numbers
// follow the order in which they are started, which determines their order (see goroutine). Since
// only one of them acts at a time it is also faster.
func oneCPU() func() {
	cpus.Lock()
	defer cpus.Unlock()
	if cpus.users++; cpus.users == 1 {
		cpus.before = runtime.GOMAXPROCS(1)
	}
	return func() {
		cpus.Lock()
		defer cpus.Unlock()
		if cpus.users--; cpus.users == 0 {
			runtime.GOMAXPROCS(cpus.before)
		}
	}
}
