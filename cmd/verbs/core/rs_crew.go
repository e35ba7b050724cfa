package main

import (
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"golang.org/x/sys/unix"
)

// rsCrew are the threads of the program that wait for rsockets of one completion vector of a
// device. They sleep on the descriptors of shards that have lent their seats, and the kernel wakes
// one of them for each packet: that one receives for all, and wakes those who have something. A
// thread that has something for itself leaves, and owes the others nothing: the next packet wakes
// another one. It implements [core.Sleeper].
type rsCrew struct {
	vector  int
	mu      sync.Mutex // comes after all locks of shards
	threads []*rsThread
	set     int                      // of epoll, with the same descriptors; 0: there is none yet
	lenders atomic.Pointer[[]lender] // changed under mu
	last    atomic.Int32             // thread that has received, by its number
	out     []rsOut                  // those that were woken, and have not come to wait again
	latest  *rsThread                // that had something
	mixed   int                      // how much oftener that was another one than the one before
}

// rsCrews are those of all devices, by their key.
var rsCrews sync.Map

// rsOut is a thread that has something, and may post so many answers.
type rsOut struct {
	thread  *rsThread
	since   time.Time
	answers int
}

type rsCrewKey struct {
	device *verbs.Device
	vector int
}

// rsComing counts threads that are woken and do not run yet.
var rsComing atomic.Int32

// crew returns that of a socket, of datagrams that of the first vector; nil if there is no device
// yet.
func (s *rsSocket) crew() *rsCrew {
	if c := s.wake.crew.Load(); c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var at net.Addr
	var key rsCrewKey
	switch {
	case s.conn != nil:
		at, key.vector = s.conn.LocalAddr(), core.Open(s.conn).Vector()
	case s.datagram != nil && s.datagram.conn != nil:
		at = s.datagram.conn.LocalAddr()
	default:
		return nil
	}
	if key.device = deviceAt(at.(rsocket.Addr).Addr()); key.device == nil {
		return nil
	}
	v, ok := rsCrews.Load(key)
	if !ok {
		c := &rsCrew{vector: key.vector}
		c.lenders.Store(new([]lender))
		v, _ = rsCrews.LoadOrStore(key, c)
	}
	s.wake.crew.Store(v.(*rsCrew))
	return v.(*rsCrew)
}

// join adds the thread that calls it. If that can't sleep on the descriptors of a shard, others
// wake it.
func (t *rsThread) join(c *rsCrew) {
	if slices.Contains(*t.crews.Load(), c) {
		return
	}
	all := append(slices.Clone(*t.crews.Load()), c)
	t.crews.Store(&all)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.threads = append(c.threads, t)
	for _, l := range *c.lenders.Load() {
		t.watch(l.fds)
	}
}

// drop forgets a thread that has ended: it has closed its set.
func (t *rsThread) drop() {
	t.begin()
	t.comes()
	for _, c := range *t.crews.Load() {
		c.mu.Lock()
		c.threads = slices.DeleteFunc(c.threads, func(o *rsThread) bool { return o == t })
		if c.latest == t {
			c.latest = nil
		}
		c.mu.Unlock()
	}
	rsThreads.drop(t.handle)
}

// lender returns who has lent a seat to a crew of the thread, of several one by turns, and how many
// have.
func (t *rsThread) lender() (l core.Lender, c *rsCrew, n int) {
	crews := *t.crews.Load()
	for _, o := range crews {
		for _, x := range *o.lenders.Load() {
			if n == 0 || n <= t.turn%len(crews) {
				l, c = x.Lender, o
			}
			n++
		}
	}
	return l, c, n
}

// glance receives what has come for those who have lent their seats, but for one of them.
func (t *rsThread) glance(not core.Lender) {
	for _, c := range *t.crews.Load() {
		for _, l := range *c.lenders.Load() {
			if l.Lender != not {
				l.Glance()
			}
		}
	}
}

// Thread is that of [core.Sleeper]: the last one that received.
func (c *rsCrew) Thread() int { return int(c.last.Load()) }

// Inside is that of [core.Sleeper].
func (c *rsCrew) Inside() bool { return true }

// Watch is that of [core.Sleeper].
func (c *rsCrew) Watch(l core.Lender, fds []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == 0 {
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return false
		}
		c.set = set
	}
	if !watch(c.set, fds) {
		return false
	}
	for _, t := range c.threads {
		t.watch(fds)
	}
	all := append(slices.Clone(*c.lenders.Load()), lender{l, fds})
	c.lenders.Store(&all)
	return true
}

// Forget undoes Watch.
func (c *rsCrew) Forget(l core.Lender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(*c.lenders.Load())
	i := slices.IndexFunc(all, func(x lender) bool { return x.Lender == l })
	if i < 0 {
		return
	}
	unwatch(c.set, all[i].fds)
	for _, t := range c.threads {
		t.unwatch(all[i].fds)
	}
	all = slices.Delete(all, i, i+1)
	c.lenders.Store(&all)
}

// Busy is that of [core.Sleeper]. A thread that stays away for long does not count.
func (c *rsCrew) Busy() (answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 {
		return 0
	}
	now := time.Now()
	for i := 0; i < len(c.out); {
		o := &c.out[i]
		if now.Sub(o.since) > rsAway {
			c.comes(o.thread)
			continue
		}
		answers += o.answers
		i++
	}
	return answers
}

// goes notes that the thread has something, and perhaps answers.
func (c *rsCrew) goes(t *rsThread, answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == t {
		c.mixed = max(c.mixed-1, 0)
	} else {
		c.mixed = min(c.mixed+1, 2*rsMixed)
	}
	c.latest = t
	c.comes(t)
	c.out = append(c.out, rsOut{t, time.Now(), answers})
}

// looks reports whether a thread that waits is to look before it sleeps: not if several of them get
// something by turns, and want all CPUs for that.
func (c *rsCrew) looks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mixed < rsMixed || len(c.threads) < runtime.NumCPU()
}

// rsMixed is how much oftener a packet is for another thread than the last one, until threads do
// not look.
const rsMixed = 8

// comes notes that a thread waits again, or has ended. c.mu is held.
func (c *rsCrew) comes(t *rsThread) {
	if i := slices.IndexFunc(c.out, func(o rsOut) bool { return o.thread == t }); i >= 0 {
		last := len(c.out) - 1
		c.out[i], c.out[last] = c.out[last], rsOut{}
		c.out = c.out[:last]
	}
}

// rsAway is how long a thread may take to answer while others' answers wait: two wake-ups, on CPUs
// that others use.
const rsAway = 500 * time.Microsecond

// comes notes that the thread waits again.
func (t *rsThread) comes() {
	for _, c := range *t.crews.Load() {
		c.mu.Lock()
		c.comes(t)
		c.mu.Unlock()
	}
}

// goes notes that the thread has as much as it may answer.
func (t *rsThread) goes(answers int) {
	for _, c := range *t.crews.Load() {
		c.goes(t, answers)
	}
}

// Idle is that of [core.Sleeper].
func (c *rsCrew) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.set), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}

// watch has the thread sleep on more descriptors, together with others.
func (t *rsThread) watch(fds []int) {
	if t.hold() {
		watch(int(t.shared.set), fds)
		t.release()
	}
}

func (t *rsThread) unwatch(fds []int) {
	if t.hold() {
		unwatch(int(t.shared.set), fds)
		t.release()
	}
}

// watch puts descriptors into a set, all or none. Of threads that sleep on the same in epoll_wait
// the kernel wakes one.
func watch(set int, fds []int) bool {
	for i, fd := range fds {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE}
		if unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &e) != nil {
			unwatch(set, fds[:i])
			return false
		}
	}
	return true
}

func unwatch(set int, fds []int) {
	for _, fd := range fds {
		_ = unix.EpollCtl(set, unix.EPOLL_CTL_DEL, fd, nil)
	}
}
