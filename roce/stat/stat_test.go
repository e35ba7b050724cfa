package stat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// pair is two devices on a simulated link with a connected queue pair each.
type pair struct {
	a, b   *verbs.Device
	qa, qb *verbs.QP
}

var addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

func newPair(t *testing.T) *pair {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1})
	open := func(a netip.Addr) (*verbs.Device, *verbs.QP) {
		l, err := f.Link(a)
		require.NoError(t, err)
		d, err := verbs.Open(verbs.Config{Link: l})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		pd, err := d.AllocPD()
		require.NoError(t, err)
		cq, err := d.CreateCQ(16, nil)
		require.NoError(t, err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq})
		require.NoError(t, err)
		return d, qp
	}
	p := &pair{}
	p.a, p.qa = open(addrA)
	p.b, p.qb = open(addrB)
	for _, c := range []struct {
		qp, to *verbs.QP
		at     netip.Addr
	}{{p.qa, p.qb, addrB}, {p.qb, p.qa, addrA}} {
		require.NoError(t,
			c.qp.Connect(verbs.RemoteInfo{QPN: c.to.Num(), PSN: c.to.PSN(), GID: ib.GIDFromAddr(c.at)}, nil))
	}
	return p
}

// mine returns the sockets of this process.
func mine(t *testing.T) (out []Endpoint) {
	t.Helper()
	all, err := Find()
	require.NoError(t, err)
	for _, e := range all {
		if e.PID == os.Getpid() {
			out = append(out, e)
		}
	}
	return out
}

func serve(t *testing.T, d ...*verbs.Device) *Server {
	t.Helper()
	s, err := Serve(d...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// soon bounds what takes moments.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestServeAndAsk(t *testing.T) {
	p := newPair(t)
	before := len(mine(t))
	s := serve(t, p.a)
	all := mine(t)
	require.Len(t, all, before+1)
	e := all[before]
	got, err := e.Ask(soon(t))
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), got.PID)
	require.Equal(t, os.Geteuid(), got.User)
	require.NotEmpty(t, got.Command)
	require.Len(t, got.Devices, 1)
	d := got.Devices[0]
	require.Equal(t, "sim", d.Link)
	require.Equal(t, []string{"10.0.0.1"}, d.GIDs)
	require.Equal(t, "ACTIVE", d.State)
	require.Equal(t, 1, d.Memory.PDs)
	require.True(t, d.Polling)
	require.Len(t, d.Counters, len(counterNames))
	require.Equal(t, 1, d.NumQPs)
	require.Equal(t, []QP{{
		Number: p.qa.Num(), Type: "RC", State: "RTS", Remote: p.qb.Num(), RQPSN: p.qb.PSN(), SQPSN: p.qa.PSN(),
		Local: "10.0.0.1", Peer: "10.0.0.2", MTU: p.a.Port().ActiveMTU.Bytes(),
	}}, d.QPs)

	// What was sent since shows, and devices that come and go.
	mr, err := p.qa.PD().RegisterMR(make([]byte, 64), verbs.LocalWrite, nil)
	require.NoError(t, err)
	require.NoError(t, p.qa.PostSend(&verbs.SendWR{Opcode: verbs.WRWrite, SGList: []verbs.SGE{mr.SGE(0, 64)}}))
	s.Add(p.b)
	got, err = e.Ask(soon(t))
	require.NoError(t, err)
	require.Len(t, got.Devices, 2)
	require.EqualValues(t, 1, got.Devices[0].Counters["sent_pkts"])
	require.Equal(t, 1, got.Devices[0].Memory.Regions)
	require.Equal(t, []string{"10.0.0.2"}, got.Devices[1].GIDs)
	require.NoError(t, p.a.Close())
	got, err = e.Ask(soon(t))
	require.NoError(t, err)
	require.Len(t, got.Devices, 1)
	require.Equal(t, []string{"10.0.0.2"}, got.Devices[0].GIDs)

	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = e.Ask(soon(t))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Len(t, mine(t), before)
}

// Clients that connect and take nothing keep nobody waiting for longer than each has, and Close not
// at all.
func TestClientsThatTakeNothing(t *testing.T) {
	p := newPair(t)
	// More than a socket holds, so that the server has to wait.
	cq, err := p.a.CreateCQ(16, nil)
	require.NoError(t, err)
	for range 3000 {
		_, err := p.qa.PD().CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq})
		require.NoError(t, err)
	}
	s := serve(t, p.a)
	e := mine(t)[0]
	for range maxAtOnce {
		c, err := net.Dial("unix", e.name)
		require.NoError(t, err)
		defer c.Close()
	}
	got, err := e.Ask(soon(t)) // after writeTime at most
	require.NoError(t, err)
	require.Len(t, got.Devices[0].QPs, 3001)
	for range 2 * maxAtOnce {
		c, err := net.Dial("unix", e.name)
		require.NoError(t, err)
		defer c.Close()
	}
	require.NoError(t, s.Close())
}

// impostor is a socket with a name that is found, and a server that does what f does.
func impostor(t *testing.T, name string, f func(c net.Conn)) Endpoint {
	t.Helper()
	ln, err := net.Listen("unix", name)
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f(c)
		}
	}()
	return Endpoint{name: name, User: os.Geteuid(), PID: 1}
}

// A server that is hostile, or hangs, costs a client no more than it is willing to give.
func TestHostileServers(t *testing.T) {
	hang := impostor(t, "@goroce-test-hang", func(c net.Conn) { t.Cleanup(func() { c.Close() }) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := hang.Ask(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	flood := impostor(t, "@goroce-test-flood", func(c net.Conn) {
		defer c.Close()
		b := []byte(strings.Repeat("[", 1<<20))
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	_, err = flood.Ask(soon(t))
	require.ErrorIs(t, err, ErrTooLong)
	full := impostor(t, "@goroce-test-full", func(c net.Conn) {
		defer c.Close()
		_, _ = io.WriteString(c, "{}"+strings.Repeat(" ", maxAnswer-2))
	})
	_, err = full.Ask(soon(t))
	require.NoError(t, err, "as much as there may be")

	for name, text := range map[string]string{"empty": "", "nonsense": "\x00\xff",
		"deep": strings.Repeat("[", 100000), "other": `{"pid": "x"}`} {
		e := impostor(t, "@goroce-test-"+name, func(c net.Conn) {
			_, _ = c.Write([]byte(text))
			c.Close()
		})
		_, err := e.Ask(soon(t))
		require.Error(t, err, name)
	}

	// It says that it is another process: the kernel knows better.
	liar := impostor(t, "@goroce-test-liar", func(c net.Conn) {
		_, _ = c.Write([]byte(`{"pid": 1, "uid": 12345, "comm": "init"}`))
		c.Close()
	})
	p, err := liar.Ask(soon(t))
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), p.PID)
	require.Equal(t, os.Geteuid(), p.User)
}

// A socket whose name says another user than the kernel does is not asked.
func TestNameOfAnotherUser(t *testing.T) {
	e := impostor(t, "@goroce-test-user", func(c net.Conn) {
		_, _ = c.Write([]byte(`{}`))
		c.Close()
	})
	_, err := e.Ask(soon(t))
	require.NoError(t, err)
	e.User++
	_, err = e.Ask(soon(t))
	require.ErrorContains(t, err, "the socket is of user")
}

// What a process tells fits what is taken of it, however many queue pairs it has.
func TestLongestAnswer(t *testing.T) {
	many := make([]QP, maxQPs)
	for i := range many {
		many[i] = QP{
			Number: 1<<24 - 1, Type: "RC", State: "RESET", Remote: 1<<24 - 1, RQPSN: 1<<24 - 1,
			SQPSN: 1<<24 - 1, MTU: 4096, RTT: 1e12, Local: "2001:db8:1111:2222:3333:4444:5555:6666",
			Peer: "2001:db8:1111:2222:3333:4444:5555:6666", Retransmitted: 1<<32 - 1, Timeouts: 1<<32 - 1,
		}
	}
	text, err := json.Marshal(Process{Devices: []Device{{QPs: many}}})
	require.NoError(t, err)
	require.Less(t, len(text), maxAnswer)
	p := newPair(t)
	require.Empty(t, describe(p.a, 0).QPs)
	require.Equal(t, 1, describe(p.a, 0).NumQPs)
}

func TestAskEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan struct{})
	e := impostor(t, "@goroce-test-end", func(c net.Conn) {
		close(entered)
		t.Cleanup(func() { c.Close() })
	})
	go func() { <-entered; cancel() }()
	_, err := e.Ask(ctx)
	require.True(t, errors.Is(err, context.Canceled), err)
}

func TestFind(t *testing.T) {
	const head = "Num       RefCount Protocol Flags    Type St Inode Path\n"
	line := func(flags, name string) string {
		return "0000000000000000: 00000002 00000000 " + flags + " 0001 01 1234 " + name + "\n"
	}
	got, err := find(strings.NewReader(head + line(listening, "@another/program") +
		line(listening, "@goroce/stat/1/1000") + line(listening, "@goroce/stat/1/1000/77/ab") +
		line(listening, "@goroce/stat/1/1000/5/ab") + line("00000000", "@goroce/stat/1/1000/78/ab") +
		line(listening, "@goroce/stat/1/x/78/ab") + line(listening, "@goroce/stat/1/1000/-3/ab") +
		line(listening, "@goroce/stat/1/1000/79") + line(listening, "/run/x") + "0000: 1 0 " + listening +
		" 0001 01 77\n"))
	require.NoError(t, err)
	require.Equal(t, []Endpoint{{"@goroce/stat/1/1000/5/ab", 1000, 5}, {"@goroce/stat/1/1000/77/ab", 1000, 77}}, got)
	got, err = find(strings.NewReader(strings.Repeat(line(listening, "@goroce/stat/1/1/1/a"), 3*maxEndpoints)))
	require.NoError(t, err)
	require.Len(t, got, maxEndpoints)
	got, err = find(strings.NewReader(strings.Repeat(line(listening, "@goroce/stat/1/1/1/a"), 3*maxEndpoints) +
		line(listening, "@goroce/stat/1/2/2/a")))
	require.NoError(t, err)
	require.Len(t, got, maxEndpoints+1, "a user cannot use up the room of another")
}

// The names are those that the comments of verbs.Counters give, and there is one for each field.
func TestCounterNames(t *testing.T) {
	source, err := os.ReadFile("../verbs/counters.go")
	require.NoError(t, err)
	fields := regexp.MustCompile(`(?m)^\t(\w+)\s+uint64(?: // ([a-z_]+)(?::| *$))?`).FindAllStringSubmatch(
		string(source), -1)
	require.Len(t, fields, len(counterNames))
	for i, f := range fields {
		if i < 17 { // rdma_rxe's
			require.Equal(t, f[2], counterNames[i])
			continue
		}
		require.Equal(t, strings.ToLower(f[1]), strings.ReplaceAll(counterNames[i], "_", ""))
	}
	require.Equal(t, counterNames, CounterNames())
}

// A process that runs as the user that stands for all whom the user namespace does not map answers
// none of them.
func TestUnmappedUser(t *testing.T) {
	const childEnv = "GOROCE_STAT_TEST_CHILD"
	if os.Getenv(childEnv) != "" {
		_, err := Serve()
		require.NoError(t, err)
		fmt.Println("serves")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestUnmappedUser$")
	c.Env = append(os.Environ(), childEnv+"=1")
	unix.SetAttr(c, &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER})
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	if err := c.Start(); err != nil {
		t.Skipf("no user namespaces: %v", err)
	}
	defer func() { in.Close(); _ = c.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "serves\n", line)
	all, err := Find()
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(e Endpoint) bool { return e.User == 65534 && e.PID == c.Process.Pid })
	require.GreaterOrEqual(t, at, 0)
	ask := func(uid int) string {
		// The thread ends with the goroutine, and with it its user.
		said := make(chan string)
		go func() {
			runtime.LockOSThread()
			_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
			s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if e == 0 && err == nil {
				err = unix.Connect(s, &unix.SockaddrUnix{Name: all[at].name})
			}
			b := make([]byte, 100)
			n, _ := unix.Read(s, b)
			unix.Close(s)
			said <- fmt.Sprint(e, err, n > 0)
		}()
		return <-said
	}
	require.Equal(t, "errno 0 <nil> false", ask(1234))
}
