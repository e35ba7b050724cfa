package slots

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
)

// meet returns the set of an address. It gets the set from a process that has the address, or makes
// it.
func meet(a Address) (*set, error) {
	m := meeting{a: a, start: time.Now(), pause: glance}
	for {
		fds, err := m.try()
		switch {
		case err == nil:
			s := &set{address: a, fds: fds, locks: -1}
			s.ground = (*kernel)(s)
			if err := s.begin(); err != nil {
				s.close()
				return nil, err
			}
			return s, nil
		case !errors.Is(err, errAgain):
			return nil, err
		}
		time.Sleep(meetPause)
	}
}

// meeting is the search for processes that have an address.
type meeting struct {
	a     Address
	start time.Time
	since time.Time // when all of them were first seen to stand still

	pause time.Duration // before the next look for another way
	look  time.Time     // when that is
}

func (m *meeting) try() (fds [numFDs]int, err error) {
	c, foreign, err := m.a.knock()
	switch {
	case err == nil:
		defer unix.Close(c)
		return m.wait(c)
	case errors.Is(err, errAgain):
		return m.wait(-1)
	case !errors.Is(err, errNobody):
		return fds, err
	}
	file, ok := m.a.path()
	if foreign != nil && !ok {
		return fds, foreign
	}
	fds, err = found(m.a, foreign == nil, file)
	if foreign != nil && errors.Is(err, unix.EADDRINUSE) && time.Since(m.start) < beginTime {
		return fds, errAgain // perhaps of a device that begins: there is no other sign of it
	}
	if foreign != nil && errors.Is(err, errNoFile) {
		return fds, foreign
	}
	return fds, err
}

// wait waits for the answer and looks for other ways meanwhile: the processes that have the address
// may stand still, or get no CPU.
func (m *meeting) wait(c int) (fds [numFDs]int, err error) {
	for {
		if c < 0 {
			time.Sleep(meetPause) // the queue is full; a place comes free when one of the processes answers
			if time.Now().Before(m.look) {
				return fds, errAgain
			}
		} else if readable(c, m.pause) {
			return take(c)
		}
		began := time.Now()
		if c >= 0 && m.willAnswer(c, began) {
			m.pause = nextPause(m.pause, time.Since(began))
			continue
		}
		listeners := m.a.listeners()
		holders := processes.Holders(maxHolders, listeners...)
		if fds, err = borrow(holders, listeners); err == nil {
			return fds, nil
		}
		if tooFew(err) {
			return fds, unsupported("pidfd_getfd", err)
		}
		still := len(holders) > 0 && !slices.ContainsFunc(holders, processes.Holder.Moves)
		now := time.Now()
		m.pause = nextPause(m.pause, now.Sub(began))
		m.look = now.Add(m.pause)
		if !still {
			m.since = time.Time{}
		} else if m.since.IsZero() {
			m.since = now
		}
		if still && now.Sub(m.since) > stillTime || now.Sub(m.start) > meetTime {
			return fds, &HeldError{Port: m.a.Port, Holders: holders}
		}
		if c < 0 {
			return fds, errAgain
		}
	}
}

// nextPause returns the pause after a look, which reads what each process has open, and takes long
// where devices hold many descriptors. If that did not count, those who wait would take the CPU
// from the one who answers.
func nextPause(pause, took time.Duration) time.Duration {
	return max(min(2*pause, longGlance), min(lookShare*took, maxPause))
}

// willAnswer reports whether the answer to a connection should just be waited for: the process that
// listens runs. A slow machine takes seconds to answer many devices, and far longer if each of them
// looks for other ways meanwhile. After a while they do look: that process may have closed its
// device, and another one that should answer may stand still.
func (m *meeting) willAnswer(c int, now time.Time) bool {
	cred, err := processes.Of(c)
	return err == nil && now.Sub(m.start) < meetTime/2 && processes.Runs(int(cred.Pid))
}

func readable(fd int, timeout time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	end := time.Now().Add(timeout)
	for {
		n, err := unix.Poll(fds, max(int(time.Until(end)/time.Millisecond), 0))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// HeldError says that processes of this user have an address and do not let this one join.
type HeldError struct {
	Port    uint16
	Holders []processes.Holder // as far as the kernel shows them
}

func (e *HeldError) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("UDP port %d is held by a process that does not answer", e.Port)
	}
	s := fmt.Sprintf("UDP port %d is held by %v", e.Port, e.Holders[0])
	for _, p := range e.Holders[1:] {
		s += fmt.Sprintf(", and by %v", p)
	}
	return s
}

// Hint says what helps.
func (e *HeldError) Hint() string {
	what := "end it, or give it more CPU"
	if len(e.Holders) > 0 && e.Holders[0].Still != "" {
		what = fmt.Sprintf("continue it (kill -CONT %d) or end it", e.Holders[0].PID)
	}
	return what +
		"; where processes of one user may debug each other (kernel.yama.ptrace_scope 0) others can join without it"
}

// Unwrap returns EADDRINUSE.
func (e *HeldError) Unwrap() error { return unix.EADDRINUSE }
