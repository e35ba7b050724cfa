package verbs

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/stretchr/testify/require"
)

// sockets returns the descriptors of this process that are sockets of a family.
func sockets(t *testing.T, family int) map[int]bool {
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	fds := map[int]bool{}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		require.NoError(t, err)
		if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && domain == family {
			fds[fd] = true
		}
	}
	return fds
}

// The sockets of a device are gone, and other files have their descriptors: the device ends, who
// waits learns why, and what it was that the system call said.
func TestSocketsReplaced(t *testing.T) {
	seeds.Slow(t)
	for _, name := range []string{"udp", "udp, polling", "packet", "packet, polling"} {
		t.Run(name, func(t *testing.T) {
			kind, rest, _ := strings.Cut(name, ",")
			cfg := Config{Polling: rest != ""}
			family := unix.AF_INET
			if kind == "packet" {
				family = unix.AF_PACKET
			}
			before := sockets(t, family)
			if kind == "packet" {
				ns := linktest.NewNamespace(t)
				cfg.Link = linkIn(t, ns, kind, netip.MustParseAddr("127.0.0.1"), true)
			}
			d := openDevice(t, cfg)
			e := newEnd(t, d, 100, QPInitAttr{})
			// 0.3 s.
			require.NoError(t, e.qp.Connect(RemoteInfo{QPN: 77, GID: ib.GIDFromAddr(d.Addrs()[0])}, withTimeout(16, 7)))
			errs := make(chan error)
			go func() {
				var wcs [1]WC
				n, err := e.cq.Wait(testContext(t), wcs[:])
				if n == 1 && wcs[0].Status == WCFlushErr { // what was posted
					_, err = e.cq.Wait(testContext(t), wcs[:])
				}
				errs <- err
			}()
			null, err := os.Open(os.DevNull)
			require.NoError(t, err)
			defer null.Close()
			replaced := 0
			for fd := range sockets(t, family) {
				if !before[fd] {
					require.NoError(t, unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC))
					replaced++
				}
			}
			require.NotZero(t, replaced)
			d.s.Link().Wake() // a poll that has begun has the sockets still
			// Who only polls a ring makes no system call until a timer runs or a packet leaves.
			_ = e.qp.PostSend(&SendWR{Opcode: WRWrite, SGList: []SGE{e.mr.SGE(0, 10)}})
			err = <-errs
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, unix.ENOTSOCK)
			require.ErrorIs(t, e.qp.PostSend(&SendWR{}), unix.ENOTSOCK)
			ev, err := d.AsyncEvent(testContext(t))
			require.NoError(t, err)
			require.Equal(t, EventDeviceFatal, ev.Type)
			require.False(t, d.Port().Active)
		})
	}
}

// jumpingLink is a link whose clock a test moves, or has stand still.
type jumpingLink struct {
	link.Link
	ahead atomic.Int64
	still atomic.Int64 // 0: it goes
}

func (l *jumpingLink) Now() int64 {
	if at := l.still.Load(); at != 0 {
		return at
	}
	return l.Link.Now() + l.ahead.Load()
}

// A clock that jumps by an hour, as that of a virtual machine may which was stopped, ends no
// connection: the timers that are due run once, after what has come was handled, and what is sent
// again is answered. A clock that stands still keeps nothing that works from going on.
func TestClockJumps(t *testing.T) {
	seeds.Slow(t)
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			clock := &jumpingLink{}
			cfg.WrapLink = func(l link.Link) (link.Link, error) { clock.Link = l; return clock, nil }
			a, b := newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{}),
				newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{})
			connect(t, a, b)
			const jumps = 10
			for i := range jumps {
				require.NoError(t, a.qp.PostSend(&SendWR{
					ID: uint64(i), Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 4096)},
					RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
				}))
				clock.ahead.Add(int64(time.Hour))
				clock.Wake()
				wc := a.wait(t, testContext(t))
				require.Equal(t, WCSuccess, wc.Status)
				require.EqualValues(t, i, wc.ID)
			}
			clock.still.Store(clock.Now())
			for range jumps {
				write(t, a, b, 1000)
			}
			clock.ahead.Store(clock.still.Load() - clock.Link.Now())
			clock.still.Store(0)
			write(t, a, b, 1000)
		})
	}
}

// fullDisk takes so many bytes, and part of what is the last.
type fullDisk struct {
	left  int
	after int // writes since it was full
}

func (w *fullDisk) Write(b []byte) (int, error) {
	if w.left == 0 {
		w.after++
	}
	n := min(len(b), w.left)
	if w.left -= n; n < len(b) {
		return n, &os.PathError{Op: "write", Path: "trace", Err: syscall.ENOSPC}
	}
	return n, nil
}

// A disk that is full ends the trace and not the traffic, wherever in a packet it gets full; and is
// not asked again.
func TestTraceOnFullDisk(t *testing.T) {
	seeds.Slow(t)
	for _, room := range []int{200, 201, 1000, 4999} {
		disk := &fullDisk{left: room}
		var tr *trace.Link
		a, b := wrapped(t, sim.New(sim.Config{Seed: 1}), func(l link.Link) (_ link.Link, err error) {
			tr, err = trace.New(l, disk)
			return tr, err
		}, 4096)
		for range 5 {
			write(t, a, b, 2000)
		}
		require.ErrorIs(t, tr.Err(), syscall.ENOSPC)
		require.LessOrEqual(t, disk.after, 1)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	l, err := sim.New(sim.Config{Seed: 1}).Link(simAddr(1))
	require.NoError(t, err)
	_, err = trace.New(l, full)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, l.Close())
}
