package roce_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The host is there and no process: it says so at once, as for TCP.
func TestDialWithoutAProcess(t *testing.T) {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	defer d.Close()
	dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}, Tries: 1, RetryInterval: time.Hour}
	_, err = dialer.Dial(t.Context(), processAddr().String()+":1")
	require.ErrorIs(t, err, roce.ErrConnRefused)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A process that is killed says nothing. Its peers notice, whether they wait for something or send
// it, whether another one is there in its place or not, and long before a silence that is only that
// is over.
func TestPeerIsKilled(t *testing.T) {
	for name, c := range map[string]struct{ restarted, sends bool }{
		"gone": {}, "gone, sends": {sends: true}, "restarted": {restarted: true}, "restarted, sends": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := processAddr()
			server := startProcess(t, addr, 0)
			server.say("open")
			server.port = server.say("listen", "0")
			d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
			require.NoError(t, err)
			defer d.Close()
			dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d, KeepAlive: -1, SilenceTimeout: time.Hour}}
			conn, err := dialer.Dial(t.Context(), addr.String()+":"+server.port)
			require.NoError(t, err)
			defer conn.Close()
			server.kill()
			if c.restarted {
				again := startProcess(t, addr, 0)
				again.say("open")
				again.say("listen", server.port)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a busy machine, and no hour
			defer cancel()
			if c.sends {
				err = conn.Send(ctx, []byte("hello"))
			} else {
				_, err = conn.Recv(ctx, make([]byte, 10))
			}
			require.ErrorIs(t, err, roce.ErrPeerGone)
			require.ErrorIs(t, err, syscall.ECONNRESET)
		})
	}
}

// A process that is killed beside others at its address, which answer for it.
func TestPeerIsKilledBesideOthers(t *testing.T) {
	addr := processAddr()
	other := startProcess(t, addr, 0)
	other.say("open")
	other.say("listen", "0")
	server := startProcess(t, addr, 0)
	server.say("open")
	server.port = server.say("listen", "0")
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	defer d.Close()
	dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d, KeepAlive: -1}}
	conn, err := dialer.Dial(t.Context(), addr.String()+":"+server.port)
	require.NoError(t, err)
	defer conn.Close()
	server.kill()
	_, err = conn.Recv(t.Context(), make([]byte, 10))
	require.ErrorIs(t, err, roce.ErrPeerGone)
}

// A server that is killed and started anew: the connection that the client has kept is gone before
// the next POST, which nobody may send twice, goes on a new one.
func TestPostAfterRestart(t *testing.T) {
	addr := processAddr()
	start := func(port string) *process {
		p := startProcess(t, addr, 0)
		p.say("open")
		p.port = p.say("http", port)
		return p
	}
	server := start("0")
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	defer d.Close()
	broken := make(chan struct{})
	var once sync.Once
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&rsocket.Dialer{Device: d}).DialContext(ctx, network, address)
		return &noticing{c, func() { once.Do(func() { close(broken) }) }}, err
	}}
	defer tr.CloseIdleConnections()
	post := func() {
		r, err := (&http.Client{Transport: tr}).Post("http://"+addr.String()+":"+server.port, "text/plain",
			strings.NewReader("hello"))
		require.NoError(t, err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
	}
	post()
	server.kill()
	server = start(server.port)
	<-broken
	post()
}

// noticing tells that Read has failed.
type noticing struct {
	net.Conn
	failed func()
}

func (c *noticing) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.failed()
	}
	return n, err
}

// A process that stands still for longer than all retries last has its connections afterwards.
func TestPeerStandsStill(t *testing.T) {
	server := startProcess(t, processAddr(), 0)
	server.say("open")
	server.port = server.say("listen", "0")
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	defer d.Close()
	param := rdmacm.DefaultConnParam()
	param.AckTimeout = 8 // 1 ms, so that 8 of them are soon over
	dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d, Param: &param}}
	conn, err := dialer.Dial(t.Context(), addrOf(server)+":"+server.port)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, server.cmd.Process.Signal(unix.SIGSTOP))
	sent := make(chan error, 1)
	go func() { sent <- conn.Send(t.Context(), []byte("are you there?")) }()
	for conn.QP().Stats().Timeouts < 12 {
		runtime.Gosched()
	}
	require.NoError(t, server.cmd.Process.Signal(unix.SIGCONT))
	require.NoError(t, <-sent)
	b := make([]byte, 100)
	n, err := conn.Recv(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, "are you there?", string(b[:n]))
}

func addrOf(p *process) string {
	for _, e := range p.cmd.Env {
		if s, ok := strings.CutPrefix(e, childEnv+"="); ok {
			return s
		}
	}
	return ""
}

// The process that comes after one that was killed tells its peers, before it can be dialled:
// nobody has to ask. On a machine that is so busy that it takes it half a second to open its device
// they have asked before.
func TestPeerIsToldOfRestart(t *testing.T) {
	const tries = 10
	addr := processAddr()
	server := startProcess(t, addr, 0)
	server.say("open")
	server.port = server.say("listen", "0")
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	defer d.Close()
	asked := func() uint64 {
		n := rdmacm.CountersOf(d)
		return n.Stale + n.Lost // of connections that ended so
	}
	for range tries {
		dialer := roce.Dialer{ConnConfig: roce.ConnConfig{Device: d, KeepAlive: -1, SilenceTimeout: time.Hour}}
		conn, err := dialer.Dial(t.Context(), addr.String()+":"+server.port)
		require.NoError(t, err)
		before := asked()
		next := startProcess(t, addr, 0)
		_, err = next.ask("up") // no such word, but an answer: starting takes longest, and needs no address
		require.NoError(t, err)
		server.kill()
		server = next
		server.say("open")
		server.port = server.say("listen", "0")
		_, err = conn.Recv(t.Context(), make([]byte, 10))
		require.ErrorIs(t, err, roce.ErrPeerGone)
		require.NoError(t, conn.Close())
		if asked() == before {
			return
		}
	}
	t.Error("it has never been told")
}
