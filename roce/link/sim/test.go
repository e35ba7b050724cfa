package sim

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f as a test on a fabric whose goroutines take turns, in a bubble of
// package testing/synctest: what happens depends on the seed alone, also where
// several goroutines wait for the network, and time is virtual for all that f does.
// See "Tests of applications" in the package comment.
//
// If the test fails, its seed is logged. A test that leaves goroutines behind, or in which all wait
// for ever, fails, and the others of the binary go on.
func Test(t *testing.T, cfg Config, f func(t *testing.T, net *Fabric)) {
	t.Helper()
	inBubble(t, cfg, f, func(net *Fabric, w *watchdog) (stop func()) {
		net.schedule(w)
		return net.sched.stop
	})
}

// inBubble runs f on a fabric that begin lets run, until stop.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, net *Fabric), begin func(net *Fabric, w *watchdog) (stop func())) {
	t.Helper()
	defer oneCPU()()
	defer collectBetween()()
	var w watchdog
	defer w.start()()
	defer stuck(t)
	synctest.Test(t, func(t *testing.T) {
		net := New(cfg)
		stop := begin(net, &w)
		// Registered first, it is the last to be called.
		t.Cleanup(func() {
			stop()
			if t.Failed() {
				t.Logf("seed %d", cfg.Seed)
			}
		})
		f(t, net)
	})
}

// Run is Test outside of a test, for programs and benchmarks. f must not call
// runtime.Goexit.
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

// Turn blocks until all other goroutines wait and it is the caller's turn. The
// calls that wait for the network do it by themselves. A goroutine that was woken by something
// else together with others, and then goes on with calls that do not wait, calls it to
// have its place in an order that depends on the seed. It is for a [Test], and does nothing
// otherwise.
func (f *Fabric) Turn() { f.turn(nil) }

func (f *Fabric) turn(quit <-chan struct{}) {
	if f.sched != nil {
		f.sched.turn(quit)
	}
}

// cpus counts who wants to be alone on one CPU.
var cpus struct {
	sync.Mutex
	users, before int
}

// oneCPU lets goroutines run on one CPU until the function that it returns is
// called. Then they are numbered in the order in which they are started, which
// is what their order is known by (see goroutine); and as only one of them acts at a
// time it is also faster.
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
