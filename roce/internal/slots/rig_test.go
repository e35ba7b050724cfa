//go:build linux

package slots

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// childEnv makes the test binary a process that has a lease; see child.
const childEnv = "GOROCE_SLOTS_TEST_CHILD"

// dirEnv is the directory of a child's user.
const dirEnv = "GOROCE_SLOTS_TEST_DIR"

// useDir has this process meet others in a directory, or, if it is empty, by abstract names only.
func useDir(dir string) {
	userDir = func() (string, bool) {
		if dir == "" {
			return "", false
		}
		return ownDir(dir)
	}
}

func TestMain(m *testing.M) {
	useDir(os.Getenv(dirEnv))
	if s := os.Getenv(childEnv); s != "" {
		child(s)
		return
	}
	os.Exit(m.Run())
}

// child does what lines of its standard input say, and answers each by a line.
func child(s string) {
	var a Address
	ap := netip.MustParseAddrPort(s)
	a.Addr, a.Port = ap.Addr(), ap.Port()
	var l *Lease
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var err error
		out := "ok"
		var service mad.ServiceID
		switch verb, arg, _ := strings.Cut(in.Text(), " "); verb {
		case "open":
			if l, err = Open([]Address{a}); err == nil {
				out = fmt.Sprint(l.slot)
			}
		case "announce":
			_, _ = fmt.Sscan(arg, &service)
			err = l.Announce(0, service)
		case "orphan": // be like the child of a fork whose parent has gone: it has all, and does nothing
			l.sets[0].server.close()
			for _, fd := range append(l.sets[0].fds[:], l.sets[0].locks) {
				if _, err = unix.Dup(fd); err != nil {
					break
				}
			}
			if err == nil { // the last in a list of descriptors
				_, err = unix.FcntlInt(uintptr(l.sets[0].locks), unix.F_DUPFD_CLOEXEC, 990)
			}
			for _, fd := range append(l.sets[0].fds[:], l.sets[0].locks) {
				unix.Close(fd)
			}
		case "disown":
			err = Disown()
		case "squat": // have the name of another user's address
			var fd int
			if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err == nil {
				if err = unix.Bind(fd, &unix.SockaddrUnix{Name: "\x00" + arg}); err == nil {
					err = unix.Listen(fd, backlog)
				}
			}
		case "ask": // for what another user has
			var port uint16
			fd, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			of := 0
			_, _ = fmt.Sscan(arg, &port, &of)
			other := strings.Replace(Address{Addr: a.Addr, Port: port}.name(),
				fmt.Sprintf("/%d/", os.Geteuid()), fmt.Sprintf("/%d/", of), 1)
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: other}); err == nil {
				_, err = take(fd)
			}
			unix.Close(fd)
		case "dir":
			useDir(arg)
		case "close":
			l.Close()
		}
		if err != nil {
			out = "error: " + err.Error()
		}
		fmt.Println(out)
	}
}

// process is a child.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start(t testing.TB, a Address, uid int) *process {
	t.Helper()
	var attr syscall.SysProcAttr
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return startAs(t, a, &attr)
}

func startAs(t testing.TB, a Address, attr *syscall.SysProcAttr) *process {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(exe)}
	p.cmd.SysProcAttr = attr
	p.cmd.Path = "/proc/self/exe" // the binary may be where another user cannot go
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", childEnv, netip.AddrPortFrom(a.Addr, a.Port)))
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

func (p *process) say(f string, args ...any) string {
	p.t.Helper()
	_, err := fmt.Fprintf(p.in, f+"\n", args...)
	require.NoError(p.t, err)
	s, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSpace(s)
}

// stop stops the process and waits until it stands still.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &ws, syscall.WUNTRACED, nil)
	require.NoError(p.t, err)
	require.True(p.t, ws.Stopped())
}

// kill ends the process by SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

var lastPort atomic.Int32

// address returns an address that no other test has.
func address() Address {
	return Address{Addr: netip.MustParseAddr("127.5.5.5"), Port: uint16(20000 + lastPort.Add(1))}
}

func lease(t testing.TB, a ...Address) *Lease {
	t.Helper()
	l, err := Open(a)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// send sends a datagram from elsewhere to the address.
func send(t testing.TB, a Address, b []byte) {
	t.Helper()
	fd, err := unix.Socket(a.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Sendto(fd, b, 0, a.sockaddr()))
}

// arrived waits for a packet, and returns what the socket holds. Loopback delivers before the call
// that sends returns, unless the kernel is busy.
func arrived(t testing.TB, fd int) [][]byte {
	t.Helper()
	for p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; ; {
		if _, err := unix.Poll(p, -1); err != unix.EINTR {
			require.NoError(t, err)
			return received(t, fd)
		}
	}
}

// datagrams are buffers for received, which is called often: to clear a new one of this size takes
// longer than to receive, much longer on an emulated machine.
var datagrams = sync.Pool{New: func() any { return new([1 << 16]byte) }}

// received returns what a socket holds.
func received(t testing.TB, fd int) (all [][]byte) {
	t.Helper()
	b := datagrams.Get().(*[1 << 16]byte)
	defer datagrams.Put(b)
	for {
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return all
		}
		require.NoError(t, err)
		all = append(all, bytes.Clone(b[:n]))
	}
}

// needsFilesFor skips a test that opens devices where the process may not have as many descriptors.
func needsFilesFor(t testing.TB, devices int) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if need := uint64(devices+2) * numFDs; limit.Cur < need {
		t.Skipf("takes %d descriptors, and %d are permitted", need, limit.Cur)
	}
}

// packet is a packet for a queue pair.
func packet(n ib.QPN) []byte {
	b := make([]byte, 60)
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteOnly, DestQP: n}}
	h.PutHeaders(b)
	return b
}

func descriptors(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}
