package sockio

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Poller blocks until one of the descriptors of a link has something, until somebody wakes it, or
// until a time.
//
// The time is a timer's that stays set from one poll to the next. A timeout of the call itself
// would be a timer of the kernel that is made for each sleep and taken back when a packet ends it.
// If that is the next one to expire, which one of 1 ms is, the kernel programs the hardware both
// times: 3 us each in a virtual machine, more than all else that a sleep costs. A timer that was
// set for earlier than needed wakes the poller once, and is set again.
type Poller struct {
	Waker
	timer int
	start time.Time
	at    time.Duration // since start: when the timer expires, or has
	// Here, so that the calls allocate nothing: a timeout of 0, and what the timer is set to.
	none unix.Timespec
	set  unix.ItimerSpec
}

// NewPoller makes the descriptors.
func NewPoller() (*Poller, error) {
	w, err := NewWaker()
	if err != nil {
		return nil, err
	}
	p := &Poller{start: time.Now()}
	p.fd = w.fd
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("timerfd_create", err), w.Close())
	}
	return p, nil
}

// First returns the descriptors that the list for Poll begins with: one for wakes, one for the
// time.
func (p *Poller) First() []unix.PollFd {
	return []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: int32(p.timer), Events: unix.POLLIN}}
}

// Poll blocks in ppoll; a negative timeout is none. It takes the wakes that happened. A signal may
// end it early.
func (p *Poller) Poll(fds []unix.PollFd, timeout time.Duration) error {
	var ts *unix.Timespec
	var until time.Duration
	if timeout == 0 {
		p.none = unix.Timespec{}
		ts = &p.none
	} else if timeout > 0 {
		now := time.Since(p.start)
		until = now + timeout
		if p.at <= now || p.at > until {
			if err := p.expireIn(now, timeout); err != nil {
				return err
			}
		}
	}
	for {
		for i := range fds {
			fds[i].Revents = 0
		}
		ready, err := unix.Ppoll(fds, ts, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("ppoll", err)
		}
		if fds[0].Revents != 0 {
			p.Clear()
		}
		if ready != 1 || fds[1].Revents != unix.POLLIN || timeout == 0 {
			return nil
		}
		now := time.Since(p.start)
		if timeout > 0 && now >= until {
			return nil
		}
		if err := p.expireIn(now, until-now); err != nil { // without a timeout: never
			return err
		}
	}
}

// expireIn sets the timer. It is not readable until then; never, if the time has passed.
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
