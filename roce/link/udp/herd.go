package udp

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// herd makes each request wake only one of the links that wait for requests on a shared socket. The
// kernel can do that for threads that wait in epoll_wait with EPOLLEXCLUSIVE, but not for a poll,
// which Wait uses. So a thread waits for requests, and wakes the link. A process that is stopped
// does not wait, so another one gets the request.
type herd struct {
	l      *Link
	fd     int // of epoll; -1: none
	end    *sockio.Waker
	wg     sync.WaitGroup
	there  atomic.Bool // the thread has seen requests, and pauses until the link has looked
	looked chan bool   // the link has looked; true: again and again it could not read them
	quit   chan struct{}
	vain   int // such looks in a row; of the receiving side
	// nap is time.After; tests replace it.
	nap func(time.Duration) <-chan time.Time
}

// begin starts waiting for requests on sockets.
func (h *herd) begin(l *Link, socks []*socket) error {
	h.l, h.looked, h.quit, h.nap = l, make(chan bool, 1), make(chan struct{}), time.After
	var err error
	if h.end, err = sockio.NewWaker(); err != nil {
		return err
	}
	if h.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		h.fd = -1
		return errors.Join(os.NewSyscallError("epoll_create1", err), h.end.Close())
	}
	err = h.add(h.end.FD(), unix.EPOLLIN)
	for _, s := range socks {
		err = errors.Join(err, h.add(s.fd, unix.EPOLLIN|unix.EPOLLEXCLUSIVE))
	}
	if err != nil {
		err = errors.Join(err, h.end.Close(), unix.Close(h.fd))
		h.fd = -1
		return err
	}
	h.wg.Add(1)
	go h.run()
	return nil
}

func (h *herd) add(fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl",
		unix.EpollCtl(h.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// run waits until there are requests, wakes the link, and waits until it has looked.
func (h *herd) run() {
	defer h.wg.Done()
	var events [4]unix.EpollEvent
	for {
		n, err := unix.EpollWait(h.fd, events[:], -1)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.EpollWait(h.fd, events[:], -1)
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == h.end.FD() {
				return
			}
		}
		if err != nil {
			return // the link looks now and then
		}
		h.there.Store(true)
		h.l.Wake()
		var rest <-chan time.Time
		for stay := true; stay; stay = rest != nil {
			select {
			case vain := <-h.looked:
				if vain { // as a poll does, so that this does not take a CPU
					rest = h.nap(sockio.NapTime)
				}
			case <-rest:
				rest = nil
			case <-h.quit:
				return
			}
		}
	}
}

// seen says that the link has taken all available requests. Only the receiving side calls it. took
// says whether it could read those that were there: another device may be faster, but not always.
func (h *herd) seen(took bool) {
	if h.vain++; took {
		h.vain = 0
	}
	if h.there.Load() {
		h.there.Store(false)
		h.looked <- h.vain >= sockio.MaxVain // does not block: the thread stores true once for each
	}
}

// stop ends the thread. The link's Waker may be closed before.
func (h *herd) stop() error {
	if h.quit == nil || h.fd < 0 {
		return nil
	}
	close(h.quit)
	h.end.Wake()
	h.wg.Wait()
	err := errors.Join(h.end.Close(), os.NewSyscallError("close", unix.Close(h.fd)))
	h.fd = -1
	return err
}
