package main

import (
	"testing"

	"github.com/goroce/goroce/internal/core"
	"golang.org/x/sys/unix"
)

// lentOnce stands for a shard. While the thread looks, queues get events.
type lentOnce struct {
	core.Lender
	ch    *userChannel
	comes []*userCQ
	looks int
}

func (l *lentOnce) Await(done func() bool, slept bool) {
	l.looks++
	for _, q := range l.comes {
		l.ch.push(q)
	}
	l.comes = nil
}

func (l *lentOnce) Glance() {}
func (l *lentOnce) Recall() {}

// A thread in ibv_get_cq_event looks before it sleeps. The event that it takes there is not
// counted, and others are.
func TestChannelLooks(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ch := &userChannel{fd: fd}
	first, second := &userCQ{}, &userCQ{}
	l := &lentOnce{ch: ch}
	expect := func(when string, want *userCQ, looks int, counted bool) {
		t.Helper()
		l.looks = 0
		if q := ch.await(); q != want {
			t.Fatalf("%s: %p, not %p", when, q, want)
		}
		if l.looks != looks {
			t.Fatalf("%s: %d looks, not %d", when, l.looks, looks)
		}
		if ch.Idle() == counted {
			t.Fatalf("%s: events are counted: %v", when, !counted)
		}
	}
	ch.lenders.Store(new([]lender))
	expect("nothing is lent", nil, 0, false)
	ch.lenders.Store(&[]lender{{Lender: l}})
	expect("nothing comes", nil, 1, false)
	l.comes = []*userCQ{first}
	expect("an event comes", first, 1, false)
	l.comes = []*userCQ{first, second}
	expect("two come", first, 1, true)
	expect("one is there", second, 0, false)
	ch.push(first)
	expect("one came before", first, 0, false)

	askers.n.Store(1 << 20)
	defer askers.n.Store(0)
	l.comes = []*userCQ{first}
	expect("many threads ask", nil, 0, false)
	askers.n.Store(1)
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	expect("the program does not block", nil, 0, false)
	ch.lenders.Store(&[]lender{{Lender: l}, {Lender: l}})
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	expect("two lend", nil, 0, false)
}

// A program that epoll has told of a count counts on an event, although the descriptor blocks, and
// was counted for a packet that made none. One that just calls sleeps until there is an event.
func TestChannelTold(t *testing.T) {
	for _, lenders := range []int{1, 2} {
		var fds [2]int // the channel's, and what packets come by
		for i := range fds {
			var err error
			if fds[i], err = unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fds[i])
		}
		fd, packets := fds[0], fds[1]
		ch := &userChannel{fd: fd}
		ch.lenders.Store(new([]lender))
		ch.thread.Store(1)
		ch.named()
		gone, q := &userCQ{}, &userCQ{}
		ch.joins(gone)
		ch.joins(q)
		ch.forget(gone)
		for i := range lenders {
			if !ch.Watch(&lentOnce{ch: ch}, fds[1:2-i]) { // the second has none
				t.Skip("the kernel has no Linux AIO here, with which alone a packet counts the descriptor")
			}
		}
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(set)
		for round := range 3 {
			count(packets)
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil {
				t.Fatal(err)
			}
			drain(packets)
			want := q
			if round == 0 {
				want = nil
			}
			ch.told.Store(ch.tells())
			got := ch.await()
			if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); got == nil && n > 0 {
				drain(fd) // the C half reads the count, and asks again
				got = ch.next(ch.look())
			}
			if got == q && want == nil {
				t.Fatalf("%d shards lend: an event without a completion, for a program that just calls", lenders)
			}
			if got != want {
				t.Fatalf("%d shards lend: the program would sleep, for a count that it has seen", lenders)
			}
			if ch.told.Store(false); !ch.Idle() {
				t.Fatalf("%d shards lend: the count stays, and the program would have events without end", lenders)
			}
			if round == 0 { // it is found out again with the 64th call
				ch.asked.Store(63)
				e := unix.EpollEvent{Events: unix.EPOLLIN}
				if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
					t.Fatal(err)
				}
			}
		}
		channels.drop(uint32(ch.handle))
		unix.Close(ch.set)
	}
}

// Threads are counted once each, however many channels they ask, until these are gone.
func TestAskers(t *testing.T) {
	var c threadCount
	for _, step := range []struct{ from, to, want int32 }{
		{0, 7, 1}, {0, 7, 1}, {0, 8, 2}, {7, 8, 2}, {7, 9, 2}, {8, 0, 2}, {8, 0, 1}, {9, 0, 0}, {0, 0, 0},
	} {
		if c.moved(step.from, step.to); c.n.Load() != step.want {
			t.Fatalf("%+v: %d", step, c.n.Load())
		}
	}
}
