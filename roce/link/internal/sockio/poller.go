package sockio

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// Poller blocks until one of the descriptors of a link is ready, until a wake, or until a time.
//
// The time is a timer's that stays set from one poll to the next. A timeout of the call itself
// would be a timer of the kernel, made for each sleep and removed when a packet ends it. If that is
// the next one to expire, as one of 1 ms is, the kernel programs the hardware both times: 3 us each
// in a virtual machine, more than all else that a sleep costs. A timer that was set too early wakes
// the poller once, and is set again.
type Poller struct {
	Waker
	timer int
	start time.Time
	at    time.Duration // since start: when the timer expires, or did
	// Here, so that the calls do not allocate: a timeout of 0, and the timer's setting.
	none unix.Timespec
	set  unix.ItimerSpec

	// ppoll is unix.Ppoll and doze is rawPpoll; tests replace them by functions that fail.
	ppoll ppoll
	doze  ppoll

	work uint64 // argument of the last call of Worked
	vain int    // polls since then that a descriptor of the link has ended
}

// NewPoller makes the descriptors.
func NewPoller() (*Poller, error) {
	w, err := NewWaker()
	if err != nil {
		return nil, err
	}
	p := &Poller{start: time.Now(), ppoll: unix.Ppoll, doze: rawPpoll}
	p.fd = w.fd
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("timerfd_create", err), w.Close())
	}
	return p, nil
}

// First returns the descriptors that begin the list for Poll: one for wakes, one for the time.
func (p *Poller) First() []unix.PollFd {
	return []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.timer), Events: unix.POLLIN}}
}

// Worked tells, before Poll, how much the link has done so far: any count that grows when something
// was received or sent. If a descriptor ends polls while nothing is done, it has a permanent error,
// or the kernel lacks memory for the work. After MaxVain such polls each poll begins with a nap, so
// that this does not take a CPU.
func (p *Poller) Worked(count uint64) {
	if count != p.work {
		p.work, p.vain = count, 0
	}
}

// Stuck reports whether that many polls were ended by descriptors while nothing was done. A link
// that does not read from its sockets then checks whether they exist.
func (p *Poller) Stuck() bool { return p.vain >= MaxVain }

// Poll blocks in ppoll; a negative timeout is none. It consumes past wakes. Lack of memory may end
// it early. The error is fatal: EBADF if one of the descriptors was closed.
func (p *Poller) Poll(fds []unix.PollFd, timeout time.Duration) error {
	if p.Stuck() && timeout != 0 {
		if over, err := p.nap(fds, &timeout); over || err != nil {
			return err
		}
	}
	if timeout == 0 {
		p.none = unix.Timespec{}
		_, err := p.poll(fds, &p.none, p.ppoll)
		return err
	}
	now, until := time.Since(p.start), time.Duration(math.MaxInt64)
	if timeout > 0 {
		until = now + timeout
	}
	if p.doze != nil && beginDoze() {
		over, err := p.pollUntil(fds, now, min(now+dozeTime, until), p.doze, true)
		endDoze()
		if over || err != nil {
			return err
		}
		if now = time.Since(p.start); now >= until {
			return nil
		}
	}
	_, err := p.pollUntil(fds, now, until, p.ppoll, false)
	return err
}

type ppoll = func(fds []unix.PollFd, timeout *unix.Timespec, sigmask *unix.Sigset_t) (int, error)

// pollUntil reports whether a descriptor of the link or a wake has ended the poll before that time.
// A signal ends a doze.
func (p *Poller) pollUntil(fds []unix.PollFd, now, until time.Duration, ppoll ppoll, dozing bool) (bool, error) {
	if until != math.MaxInt64 && (p.at <= now || p.at > until) {
		if err := p.expireIn(now, until-now); err != nil {
			return false, err
		}
	}
	for {
		end, err := p.poll(fds, nil, ppoll)
		switch {
		case end == bySomething || err != nil:
			return true, err
		case end == bySignal && dozing:
			return false, nil
		case end == bySignal:
			continue // the timer is set
		}
		if now = time.Since(p.start); now >= until {
			return false, nil
		}
		left := until - now
		if until == math.MaxInt64 {
			left = 0 // never
		}
		if err := p.expireIn(now, left); err != nil {
			return false, err
		}
	}
}

// ending is what has ended a poll.
type ending uint8

const (
	bySomething ending = iota
	byTimer
	bySignal
)

// poll polls once.
func (p *Poller) poll(fds []unix.PollFd, ts *unix.Timespec, ppoll ppoll) (ending, error) {
	for i := range fds {
		fds[i].Revents = 0
	}
	ready, err := ppoll(fds, ts, nil)
	switch err {
	case nil:
	case unix.EINTR:
		return bySignal, nil
	case unix.ENOMEM, unix.EAGAIN: // no memory for so many descriptors
		p.vain = MaxVain
		return bySomething, nil
	default:
		return bySomething, os.NewSyscallError("ppoll", err)
	}
	if fds[0].Revents != 0 {
		p.Clear()
	}
	end := bySomething
	if ready == 1 && fds[1].Revents == unix.POLLIN {
		end = byTimer
	}
	return end, p.look(fds)
}

// look examines the descriptors of the link after a poll.
func (p *Poller) look(fds []unix.PollFd) error {
	some := false
	for i := range fds {
		if fds[i].Revents&unix.POLLNVAL != 0 {
			return os.NewSyscallError("ppoll", unix.EBADF) // someone else has closed it
		}
		some = some || i > 1 && fds[i].Revents != 0
	}
	if some {
		p.vain++
	} else {
		p.vain = 0
	}
	return nil
}

// nap waits for NapTime, a wake, or the timeout, from which it subtracts the time passed. It
// reports whether the poll is over. Polling one descriptor needs no memory in the kernel.
func (p *Poller) nap(fds []unix.PollFd, timeout *time.Duration) (over bool, err error) {
	long := NapTime
	if *timeout > 0 {
		long = min(long, *timeout)
		if *timeout -= long; *timeout == 0 {
			over = true
		}
	}
	p.none = unix.NsecToTimespec(int64(long))
	for i := range fds {
		fds[i].Revents = 0
	}
	if _, err := p.ppoll(fds[:1], &p.none, nil); err != nil && err != unix.EINTR {
		return true, os.NewSyscallError("ppoll", err)
	}
	if fds[0].Revents&unix.POLLNVAL != 0 {
		return true, os.NewSyscallError("ppoll", unix.EBADF)
	}
	if fds[0].Revents != 0 {
		p.Clear()
		over = true
	}
	return over, nil
}

// expireIn sets the timer, which is not readable until then; an after of 0 sets it to never.
func (p *Poller) expireIn(now, after time.Duration) error {
	p.set = unix.ItimerSpec{}
	if after > 0 {
		p.at = now + after
		p.set.Value = unix.NsecToTimespec(int64(after))
	}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(p.timer, 0, &p.set, nil))
}

// Close closes the descriptors. Closing again does nothing.
func (p *Poller) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(os.NewSyscallError("close", unix.Close(p.timer)), p.Waker.Close())
}
