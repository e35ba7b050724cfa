package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// start serves a device on a loopback address of this process.
func start(t *testing.T, cfg Config) (string, *verbs.Device) {
	t.Helper()
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, byte(16 + pid>>16&7), byte(pid >> 8), byte(pid)})
	dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err)
	cfg.Device = dev
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(cfg).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, dev.MemCounts().Regions, "regions are left")
		require.Empty(t, dev.QPs(), "queue pairs are left")
		require.NoError(t, dev.Close())
	})
	return l.Addr().String(), dev
}

// talker is a connection on which a test says what it likes.
type talker struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func talk(t *testing.T, addr string) *talker {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return &talker{t, nc, bufio.NewReader(nc)}
}

// say sends a line and returns the answer; "" if the agent has hung up.
func (k *talker) say(line string) string {
	_, err := k.Write([]byte(line + "\n"))
	if err != nil {
		return ""
	}
	answer, _ := k.r.ReadString('\n')
	return strings.TrimSuffix(answer, "\n")
}

func (k *talker) ok(line string) string {
	k.t.Helper()
	answer := k.say(line)
	require.True(k.t, strings.HasPrefix(answer, "ok"), "%s: %s", line, answer)
	return answer
}

// Who does not begin with the right hello gets one line, and no more.
func TestHello(t *testing.T) {
	addr, _ := start(t, Config{Token: "sesame"})
	for line, want := range map[string]string{
		"":                            "err 22 ",
		"open":                        "err 71 ",
		"hello":                       "err 22 argument version",
		"hello version=2":             "err 71 this agent speaks version 1",
		"hello version=x":             "err 22 ",
		"hello version=1":             "err 13 the token is wrong",
		"hello version=1 token=sesam": "err 13 ",
		"GET / HTTP/1.1":              "err 71 ",
	} {
		k := talk(t, addr)
		require.Contains(t, k.say(line), want, line)
		_, err := k.r.ReadByte()
		require.Error(t, err, "the agent goes on after %q", line)
	}
	k := talk(t, addr)
	require.Contains(t, k.ok("hello version=1 token=sesame"), "version=1 agent=goroce device=goroce")
	require.Contains(t, k.say("hello version=1 token=sesame"), "err 22 ")
	require.Contains(t, k.say("pd"), "err 19 open first")
	require.Contains(t, k.say("open dev=mlx5_0"), "err 19 ")
	require.Contains(t, k.ok("open"), "dev=goroce")
}

// A second client has to wait until all sessions of the first have ended.
func TestOneClient(t *testing.T) {
	addr, _ := start(t, Config{})
	dial := func(name string) (*peer.AgentClient, error) {
		c, _, err := peer.DialAgent(t.Context(), peer.AgentServer{Addr: addr, Client: name})
		return c, err
	}
	a1, err := dial("a")
	require.NoError(t, err)
	a2, err := dial("a")
	require.NoError(t, err)
	_, err = dial("b")
	require.ErrorIs(t, err, syscall.EBUSY)
	require.NoError(t, a1.Close())
	_, err = dial("b")
	require.ErrorIs(t, err, syscall.EBUSY)
	require.NoError(t, a2.Close())
	require.Eventually(t, func() bool {
		b, err := dial("b")
		if err == nil {
			b.Close()
		}
		return err == nil
	}, time.Minute, time.Millisecond)
}

// Nonsense is refused, and the session goes on.
func TestNonsense(t *testing.T) {
	addr, _ := start(t, Config{MaxBytes: 1 << 20})
	k := talk(t, addr)
	k.ok("hello version=1")
	k.ok("open dev=goroce")
	require.Equal(t, "ok id=1", k.ok("pd"))
	require.Equal(t, "ok id=2", k.ok("buf len=4096"))
	require.Contains(t, k.ok("mr pd=1 buf=2 access=7"), "ok id=3 addr=0x")
	require.Equal(t, "ok id=4 cqe=10", k.ok("cq cqe=10"))
	require.Contains(t, k.ok("qp pd=1 type=rc send_cq=4 recv_cq=4"), "ok id=5 qpn=0x")
	for _, line := range []string{
		"", "   ", "nothing", "\x00\xff\xfe",
		"buf", "buf len=", "buf len=-1", "buf len=99999999999999999999", "buf len=1048577",
		"buf len=0xffffffffffffffff", "mr", "mr pd=2 buf=1 access=1", "mr pd=1 buf=2",
		"mr pd=1 buf=2 access=1 off=1 len=4096", "mr pd=1 buf=2 access=1 off=18446744073709551615 len=2",
		"mr pd=1 buf=2 access=0xffffffff", "rereg mr=1", "rereg mr=3 buf=7", "rereg mr=3 pd=9",
		"mw pd=1 type=3", "mw pd=1", "bind_mw1 mw=1", "cq", "cq cqe=0xffffffffffffffff", "cq cqe=0",
		"resize_cq cq=4", "resize_cq cq=5 cqe=3", "notify cq=4", "notify", "wait_cq cq=4", "wait_cq cq=1",
		"srq pd=4", "srq pd=1 max_wr=99999999999", "modify_srq srq=1", "ah pd=1",
		"ah pd=1 dgid=zebra sgid_index=0", "ah pd=1 dgid=::1", "ah pd=1 dgid=::ffff:10.0.0.1 sgid_index=77",
		"qp", "qp pd=1 type=xx send_cq=4 recv_cq=4", "qp pd=1 type=rc send_cq=4 recv_cq=1",
		"qp pd=1 type=rc send_cq=4 recv_cq=4 max_send_wr=99999999999",
		"modify qp=5 state=999", "modify qp=5 state=3", "modify qp=5 path_mtu=256", "modify qp=5 dgid=x",
		"modify qp=1 state=1", "query qp=1", "post_send", "post_send qp=5", "post_send qp=5 opcode=77",
		"post_send qp=5 opcode=2 sge=3:0", "post_send qp=5 opcode=2 sge=9:0:1",
		"post_send qp=5 opcode=2 sge=3:0:99999999999", "post_send qp=5 opcode=8 mw=1 mr=3",
		"post_send qp=5 opcode=2 ah=3", "post_send qp=5 opcode=2", "post_recv qp=1", "post_recv qp=5 sge=x",
		"post_recv srq=5", "post_recv qp=5 count=18446744073709551615",
		"poll", "poll cq=1", "poll cq=4 max=x", "fill buf=2", "fill buf=2 len=4097 seed=1",
		"fill buf=2 len=1 seed=1 off=4096", "check buf=3 len=1 seed=1",
		"write buf=2 hex=0", "write buf=2 hex=zz", "write buf=2 off=4095 hex=0000", "read buf=2 len=4097",
		"read buf=2 len=65537", "read buf=1 len=1", "free pd=2", "free pd=77", "free pd=1", "free cq=4",
		"free zebra=1", "free pd", "open",
	} {
		answer := k.say(line)
		require.True(t, strings.HasPrefix(answer, "err "), "%q: %q", line, answer)
		var errno int
		_, err := fmt.Sscanf(answer, "err %d", &errno)
		require.NoError(t, err)
		require.Positive(t, errno, line)
	}
	k.ok("fill buf=2 len=4096 seed=9")
	require.Equal(t, "ok bad=-1", k.ok("check buf=2 len=4096 seed=9"))
	k.ok("write buf=2 off=70 hex=00112233")
	require.Equal(t, "ok hex=112233", k.ok("read buf=2 off=71 len=3"))
	require.Contains(t, k.ok("check buf=2 len=4096 seed=9"), "ok bad=70 got=0x00 want=0x")
	require.Equal(t, "ok", k.ok("poll cq=4 max=0"))
	for _, line := range []string{"free qp=5", "free mr=3", "free buf=2", "free cq=4", "free pd=1", "buf len=1048576"} {
		k.ok(line)
	}
}

// Objects, lines and sessions have limits.
func TestLimits(t *testing.T) {
	addr, _ := start(t, Config{MaxSessions: 2})
	k := talk(t, addr)
	k.ok("hello version=1 client=a")
	k.ok("open")
	for range maxObjects {
		k.ok("buf len=0")
	}
	require.Contains(t, k.say("buf len=0"), "err 12 more than 8192 objects")
	other := talk(t, addr)
	other.ok("hello version=1 client=a")
	third := talk(t, addr)
	require.Contains(t, third.say("hello version=1 client=a"), "err 11 more than 2 sessions")
	require.Equal(t, "", other.say("pd "+strings.Repeat("x", peer.AgentMaxLine)),
		"a line longer than any ends the session")
}

// Connections that say nothing, or half a line, keep no client out. Each one above the bound ends
// the oldest, without any time passing: the bubble's clock moves only when all wait, and the
// deadline of hello is not what ends them.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beyond = 10
		begun := time.Now()
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- New(Config{Token: "sesame", MaxSessions: 2}).Serve(ctx, l) }()
		ended := make(chan int, 2*maxStrangers)
		var idle []*talker
		for i := range maxStrangers + beyond {
			k := l.talk(t)
			if i%2 == 1 {
				_, err := k.Write([]byte("hello version=1"))
				require.NoError(t, err)
			}
			idle = append(idle, k)
			if i != maxStrangers+beyond-1 { // the last one says more
				go func() { _, _ = k.r.ReadByte(); ended <- i }()
			}
			synctest.Wait()
			if i >= maxStrangers {
				require.Len(t, ended, 1)
				require.Equal(t, i-maxStrangers, <-ended, "the oldest makes room")
			}
			require.Empty(t, ended)
		}
		l.talk(t).ok("hello version=1 token=sesame client=a")
		l.talk(t).ok("hello version=1 token=sesame client=a")
		synctest.Wait()
		require.Len(t, ended, 1, "the first client is a stranger until it has said hello, and then the second has room")
		last := idle[len(idle)-1] // others may still say hello
		require.Contains(t, last.say(" token=sesame client=a"), "err 11 more than 2 sessions")
		require.Zero(t, time.Since(begun))
		cancel()
		require.NoError(t, <-done)
	})
}

// pipes is a listener whose connections are made by a test.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipes) talk(t *testing.T) *talker {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return &talker{t, ours, bufio.NewReader(ours)}
}

// A client that goes while a request waits is missed at once, and all that it had is freed.
func TestHangUpInAWait(t *testing.T) {
	addr, dev := start(t, Config{})
	k := talk(t, addr)
	k.ok("hello version=1 client=a")
	k.ok("open")
	k.ok("pd")
	k.ok("buf len=100")
	k.ok("mr pd=1 buf=2 access=1")
	k.ok("cq cqe=1")
	_, err := k.Write([]byte("poll cq=4 timeout_ms=500000\n"))
	require.NoError(t, err)
	require.NoError(t, k.Close())
	require.Eventually(t, func() bool {
		c, _, err := peer.DialAgent(t.Context(), peer.AgentServer{Addr: addr, Client: "b"})
		if err != nil {
			return false
		}
		c.Close()
		return dev.MemCounts().Regions == 0
	}, time.Minute, time.Millisecond)
}

// Serve ends while clients are there.
func TestServeEnds(t *testing.T) {
	addr, _ := start(t, Config{})
	k := talk(t, addr)
	k.ok("hello version=1")
	k.ok("open")
	k.ok("cq cqe=1")
	_, err := k.Write([]byte("poll cq=1 timeout_ms=500000\n"))
	require.NoError(t, err)
}
