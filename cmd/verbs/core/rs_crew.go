package main

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/core"
	"golang.org/x/sys/unix"
)

// crew is the one [rsCrew]. A shard that lends its seat lends it to all threads that wait for
// rsockets.
var crew rsCrew

// rsCrew are the threads of the program that wait for rsockets. They sleep on the descriptors of the
// shards that have lent their seats, and the kernel wakes one of them for each packet: that one
// receives for all, and wakes those who have something. A thread that has something for itself
// leaves, and owes the others nothing: the next packet wakes another one. It implements
// [core.Sleeper].
type rsCrew struct {
	mu      sync.Mutex // comes after all locks of shards
	threads []*rsThread
	set     int                      // of epoll, with the same descriptors; 0: there is none yet
	lenders atomic.Pointer[[]lender] // changed under mu
	last    atomic.Int32             // thread that has received, by its number
	coming  atomic.Int32             // are woken, and do not run yet
}

func init() { crew.lenders.Store(new([]lender)) }

// join adds a thread. If it can't sleep on the descriptors of a shard, others wake it.
func (c *rsCrew) join(t *rsThread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.threads = append(c.threads, t)
	for _, l := range *c.lenders.Load() {
		t.watch(l.fds)
	}
}

// leave removes a thread that has ended: it has closed its set.
func (c *rsCrew) leave(t *rsThread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.threads = slices.DeleteFunc(c.threads, func(o *rsThread) bool { return o == t })
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

// Idle is that of [core.Sleeper].
func (c *rsCrew) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.set), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}

func (c *rsCrew) glance() {
	for _, l := range *c.lenders.Load() {
		l.Glance()
	}
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
