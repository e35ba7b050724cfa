package paths

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// The descriptors that the process of the link finds: the two devices.
const linkFD = 3

// readTurn is how many packets of a device are read before packets leave.
const readTurn = 32

// LinkCount is what a link has done since it was set.
type LinkCount struct {
	Lanes [2][numProtocols]Count // from the first end to the second, and back
	// How late packets were when they left, in microseconds: half of them, all but one in a
	// hundred, and the latest.
	P50, P99, Worst float64
	Left            int // packets that left
	Refused         int // packets that the kernel did not take
	Priority        string
	CPU             float64
}

// LinkSetup says what a link is to be from now on.
type LinkSetup struct {
	Path Path
	Seed uint64
}

// link moves packets between two devices.
type link struct {
	fds   [2]int
	wake  int // an eventfd
	calls chan func()
	lanes [2]*lane
	buf   []byte
	late  lateness
	left  int
	deny  int
	how   string
}

// lateness counts by steps of 10 us; the last one has all that is more.
type lateness struct {
	steps [1000]int
	worst int64
}

func (h *lateness) add(ns int64) {
	h.steps[min(int(ns/10_000), len(h.steps)-1)]++
	h.worst = max(h.worst, ns)
}

// below is what a share was not later than, in microseconds.
func (h *lateness) below(share float64) float64 {
	all := 0
	for _, n := range h.steps {
		all += n
	}
	sum := 0
	for i, n := range h.steps {
		if sum += n; float64(sum) >= share*float64(all) {
			return float64(i+1) * 10
		}
	}
	return 0
}

// linkMain is the process of a link.
func linkMain() error {
	l := &link{fds: [2]int{linkFD, linkFD + 1}, calls: make(chan func()), buf: make([]byte, 1<<16)}
	var err error
	if l.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	for _, fd := range l.fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	l.set(LinkSetup{})
	failed := make(chan error, 1)
	go func() { failed <- l.run() }()
	s := rpc.NewServer()
	if err := s.RegisterName("Link", &LinkService{l}); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		s.ServeConn(stdio{os.Stdin, os.Stdout})
		close(gone)
	}()
	select {
	case err := <-failed:
		return err
	case <-gone:
		return nil
	}
}

// LinkService is what the coordinator can ask of a link.
type LinkService struct{ l *link }

// Set forgets all packets and counts, and is another path.
func (s *LinkService) Set(a LinkSetup, _ *struct{}) error {
	s.l.do(func() { s.l.set(a) })
	return nil
}

// Count returns the counts since then.
func (s *LinkService) Count(_ struct{}, c *LinkCount) error {
	s.l.do(func() {
		for i, lane := range s.l.lanes {
			c.Lanes[i] = lane.book.counts
		}
		c.P50, c.P99, c.Worst = s.l.late.below(0.5), s.l.late.below(0.99), float64(s.l.late.worst)/1e3
		c.Left, c.Refused, c.Priority, c.CPU = s.l.left, s.l.deny, s.l.how, cpu()
	})
	return nil
}

// do has the link's thread run f between two packets.
func (l *link) do(f func()) {
	done := make(chan struct{})
	go func() { l.calls <- func() { f(); close(done) } }()
	one := [8]byte{1}
	for {
		_, _ = unix.Write(l.wake, one[:]) // as often as is needed for the call to be there first
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (l *link) set(a LinkSetup) {
	for i := range l.lanes {
		l.lanes[i] = newLane(a.Path, a.Seed, uint64(i))
	}
	l.late, l.left, l.deny = lateness{}, 0, 0
}

// run moves packets, on a thread of its own that waits for nothing else.
func (l *link) run() error {
	runtime.LockOSThread()
	l.how = urgent()
	fds := []unix.PollFd{{Fd: int32(l.fds[0]), Events: unix.POLLIN},
		{Fd: int32(l.fds[1]), Events: unix.POLLIN}, {Fd: int32(l.wake), Events: unix.POLLIN}}
	for {
		for i, lane := range l.lanes {
			if fds[i].Revents != 0 {
				if err := l.read(l.fds[i], lane); err != nil {
					return err
				}
			}
			l.write(l.fds[1-i], lane)
		}
		if fds[2].Revents != 0 {
			var b [8]byte
			_, _ = unix.Read(l.wake, b[:])
			select {
			case f := <-l.calls:
				f()
			default:
			}
		}
		if _, err := unix.Ppoll(fds, l.wait(), nil); err != nil && err != unix.EINTR {
			return os.NewSyscallError("ppoll", err)
		}
	}
}

// wait is how long nothing has to leave; nil is for ever.
func (l *link) wait() *unix.Timespec {
	first := int64(-1)
	for _, lane := range l.lanes {
		if due, ok := lane.next(); ok && (first < 0 || due < first) {
			first = due
		}
	}
	if first < 0 {
		return nil
	}
	t := unix.NsecToTimespec(max(first-monotonic(), 0))
	return &t
}

// read lets packets of a device enter.
func (l *link) read(fd int, lane *lane) error {
	for range readTurn {
		n, err := unix.Read(fd, l.buf)
		switch err {
		case nil:
			lane.enter(monotonic(), l.buf[:n])
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("read", err)
		}
	}
	return nil
}

// write hands on what has left.
func (l *link) write(fd int, lane *lane) {
	for {
		b, late := lane.leave(monotonic())
		if b == nil {
			return
		}
		l.late.add(late)
		l.left++
		if _, err := unix.Write(fd, b); err != nil {
			l.deny++
		}
		lane.release(b)
	}
}

// monotonic is the clock of all processes here, CLOCK_MONOTONIC in nanoseconds, read without a
// system call.
func monotonic() int64 { return clockBase + int64(time.Since(clockStart)) }

var (
	clockStart = time.Now()
	clockBase  = func() int64 {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
		return t.Nano()
	}()
)

// urgent has this process run before others, and at once, as far as is permitted, and says how. All
// threads: the runtime may hand what the link's thread does to another one and back, at the
// priority of that one.
func urgent() string {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	tasks, err := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}
		err = errors.Join(err, unix.SchedSetAttr(tid, &attr, 0))
	}
	if err != nil {
		return fmt.Sprintf("no real-time priority (%v)", err)
	}
	return "real-time priority"
}
