package rdmacm

import (
	"context"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// mute is a link that sends nothing any more once its process is dead.
type mute struct {
	link.Link
	dead *atomic.Bool
}

func (m *mute) Unwrap() link.Link { return m.Link }

func (m *mute) Send(batch []transport.TxPacket) {
	if !m.dead.Load() {
		m.Link.Send(batch)
	}
}

// A client that is killed when it is its turn leaves the server with nothing to
// repeat: it asks from time to time whether anybody is there.
func TestPingClientKilled(t *testing.T) {
	p := newPing().(*ping)
	p.keepAlive = time.Millisecond
	require.NoError(t, parse("rping", "", p, []string{"-s", "-p", "0", "-a", toolcheck.Addr(t).String()}))
	server := &end{listening: make(chan netip.AddrPort, 1), done: make(chan struct{})}
	env := &tool.Env{Stdout: &server.stdout, Stderr: &server.stderr,
		Listening: func(a netip.AddrPort) { server.listening <- a }}
	go func() {
		defer close(server.done)
		server.err = p.run(t.Context(), env)
	}()
	var dead atomic.Bool
	dev, err := verbs.Open(verbs.Config{
		Addrs:    []netip.Addr{toolcheck.Addr(t)},
		WrapLink: func(l link.Link) (link.Link, error) { return &mute{l, &dead}, nil },
	})
	require.NoError(t, err)
	defer dev.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: dev, KeepAlive: -1}}
	c, err := d.DialAddr(ctx, <-server.listening)
	require.NoError(t, err)
	before := dev.Counters().RcvdPkts
	for dev.Counters().RcvdPkts < before+3 {
		require.NoError(t, ctx.Err(), "no probes come")
		runtime.Gosched()
	}
	dead.Store(true)
	<-server.done
	require.ErrorContains(t, server.err, "transport retry counter exceeded")
	require.NoError(t, c.Close())
}
