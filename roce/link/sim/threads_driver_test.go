package sim

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// OnThreads is [Test] for the shell of a device: the rules that decide which goroutine receives,
// when to send, and whether to look or to sleep. In a Test the simulation does all that; here
// goroutines on the threads and CPUs of [Machine]s do it as on a real link, and each system call,
// packet, wake-up and computation takes its virtual time. Open devices on links of [Process.Link].
//
// The goroutines of f belong to a process as well: [Process.Go] starts one, Work computes, Sleep
// sleeps. A goroutine that is woken by other means, such as a channel, calls [Process.Resumed].
// Between these calls and those of the devices no time passes. Two rules of a Test apply here: a
// waiting goroutine holds no mutex that others need meanwhile, and everything must end before the
// test does.
func OnThreads(t *testing.T, cfg Config, f func(t *testing.T, net *Fabric)) {
	t.Helper()
	inBubble(t, cfg, f, func(net *Fabric, w *watchdog) (stop func()) {
		d := newThreads(net, w)
		go d.drive()
		return d.stop
	})
}

// threads lets the goroutines of processes run. It has a goroutine of its own, the driver, which
// acts whenever all others wait: it lets a goroutine go on whose time has come, lets the next event
// happen, or lets time pass until then.
//
// The driver knows a goroutine by the calls in which it pays. After the driver has told a goroutine
// to go on, that goroutine is the current one until its next such call, and runs in no time. If all
// goroutines wait before it gets there, it waits for something that the driver does not see,
// usually a channel, and its thread is free for others. It comes back as a new task.
type threads struct {
	f     *Fabric
	start time.Time
	kick  chan struct{}
	done  chan struct{}
	dog   *watchdog

	// mu guards these, and what the methods of links and processes use. The driver holds it while
	// it decides.
	mu       sync.Mutex
	machines []*Machine
	cur      *task
	arrived  []*task
	parked   map[*task]bool // in park
	family   family
	stopping bool
	stopped  bool
	running  sync.WaitGroup // neighbours

	// Of the driver.
	last    *task   // told to go on last
	asleep  []*task // in a system call
	timers  timerHeap
	seq     uint64
	seen    int64 // the time up to which CPUs have been accounted for
	collect collector
}

// ask is a request of a goroutine.
type ask struct {
	kind    want
	work    int64       // what it pays first
	app     bool        // by the application
	resumed bool        // by a goroutine that was not running
	until   int64       // of blocks: 0 for ever
	here    func() bool // of blocks: reports whether what it waits for has come
}

// want is what the goroutine wants after it has paid.
type want uint8

const (
	works   want = iota // go on
	letsRun             // go on after the other ready goroutines
	yields              // go on after other threads
	blocks              // sleep in a system call
)

// task is a goroutine from when it is known to want to run until it waits for something that the
// driver does not see.
type task struct {
	ask
	p    *Process
	told chan order
	who  *goroutine
	th   *thread
	debt int64 // costs not yet paid
}

func newThreads(f *Fabric, w *watchdog) *threads {
	d := &threads{f: f, start: time.Now(), kick: make(chan struct{}, 1), done: make(chan struct{}), dog: w,
		family: family{}, parked: map[*task]bool{}}
	f.clock = d
	return d
}

func (d *threads) now() int64 { return int64(time.Since(d.start)) }

func (d *threads) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// over reports whether the test is ending.
func (d *threads) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping
}

// park is a call in which a goroutine pays and may have to wait.
func (p *Process) park(a ask) {
	d := p.d
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return
	}
	t := d.cur
	if a.resumed || t == nil || t.p != p {
		t = &task{p: p, told: make(chan order)}
	} else {
		d.cur = nil
	}
	t.ask = a
	d.arrived = append(d.arrived, t)
	d.parked[t] = true
	d.mu.Unlock()
	d.wake()
	for <-t.told != proceed {
		d.mu.Lock()
		t.who = d.family.self()
		d.mu.Unlock()
	}
}

// owe records a cost to be paid at the next call. It returns the total owed, in nanoseconds.
func (p *Process) owe(cost time.Duration) int64 {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.cur; t != nil && t.p == p {
		t.debt += int64(cost)
		return t.debt
	}
	p.orphan += int64(cost)
	return int64(cost)
}

// drive is the driver.
func (d *threads) drive() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		d.dog.steps.Add(1)
		d.collect.step()
		select {
		case <-d.kick: // the loop handles it now
		default:
		}
		arrived := d.order()
		d.mu.Lock()
		d.account(d.now())
		d.settle(arrived)
		t := d.decide()
		delete(d.parked, t)
		if t == nil && d.stopping {
			d.stopped = true
		}
		d.mu.Unlock()
		if d.stopped {
			d.release()
			return
		}
		if t != nil {
			t.told <- proceed
			continue
		}
		next := d.next()
		if at, ok := d.f.next(); ok && at <= next {
			if at <= d.seen {
				d.f.step(at)
				continue
			}
			next = at
		}
		if next == math.MaxInt64 {
			<-d.kick
			continue
		}
		timer.Reset(time.Duration(next - d.seen))
		select {
		case <-timer.C:
		case <-d.kick:
		}
	}
}

// order takes the arrived tasks, in an order that does not depend on which of them ran first.
func (d *threads) order() []*task {
	d.mu.Lock()
	arrived := d.arrived
	d.arrived = nil
	d.mu.Unlock()
	if len(arrived) < 2 {
		return arrived
	}
	for _, t := range arrived {
		t.told <- identify
	}
	synctest.Wait()
	slices.SortStableFunc(arrived, func(a, b *task) int { return a.who.compare(b.who) })
	return arrived
}

// settle handles what the current goroutine has done, and what it has woken. A woken goroutine can
// run once its waker has paid.
func (d *threads) settle(arrived []*task) {
	last, delay := d.last, int64(0)
	d.last = nil
	var waker *thread
	if last != nil {
		waker, delay = last.th, last.debt
		last.debt = 0
		th := last.th
		if d.cur == last { // it waits, or has ended
			last.th = nil
			th.task, th.mode, th.need = nil, owes, delay
		} else {
			th.need = last.work + delay
		}
	}
	d.cur = nil
	for _, t := range arrived {
		if t != last {
			d.after(delay, func() { d.becomesReady(t, waker) })
		}
	}
	d.rouse(delay)
}

// after makes the driver call f after a delay, at once if that is 0.
func (d *threads) after(delay int64, f func()) {
	if delay <= 0 {
		f()
		return
	}
	d.seq++
	heap.Push(&d.timers, driverTimer{d.seen + delay, d.seq, f})
}

// rouse ends sleeps whose reason has come.
func (d *threads) rouse(delay int64) {
	for i := 0; i < len(d.asleep); i++ {
		if t := d.asleep[i]; t.here() {
			d.asleep = slices.Delete(d.asleep, i, i+1)
			i--
			d.after(delay, func() { d.leavesCall(t) })
		}
	}
}

// decide lets CPUs and timers go on until a goroutine can go on, which it returns, or until time
// has to pass: nil.
func (d *threads) decide() *task {
	for again := true; again; {
		again = false
		for len(d.timers) > 0 && d.timers[0].at <= d.seen {
			heap.Pop(&d.timers).(driverTimer).f()
		}
		for _, m := range d.machines {
			m.dispatch(d.seen)
			for _, c := range m.cpus {
				th := c.th
				if th == nil || th.need > 0 {
					continue
				}
				again = true
				if t := th.finishes(d.seen); t != nil {
					d.cur, d.last = t, t
					return t
				}
			}
		}
	}
	return nil
}

// next returns when something happens by itself, leaving out the fabric's events.
func (d *threads) next() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := int64(math.MaxInt64)
	if len(d.timers) > 0 {
		next = d.timers[0].at
	}
	for _, m := range d.machines {
		next = min(next, m.next(d.seen))
	}
	return next
}

// release lets all goroutines go on, after the end.
func (d *threads) release() {
	d.mu.Lock()
	all := d.parked
	d.parked = nil
	d.mu.Unlock()
	for t := range all {
		t.told <- proceed
	}
}

// stop ends the driver. Goroutines that still run go on without paying.
func (d *threads) stop() {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	d.wake()
	<-d.done
	d.running.Wait()
}

// driverTimer is something that the driver does later.
type driverTimer struct {
	at  int64
	seq uint64
	f   func()
}

type timerHeap []driverTimer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(driverTimer)) }

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = driverTimer{}
	*h = (*h)[:last]
	return t
}
