package rdmacm

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestTiming(t *testing.T) {
	for args, label := range map[string]string{"-c 40": "qp_conn", "-c 3 -m 100": "cm_conn",
		"-c 1 -q 5000": "qp_conn"} {
		t.Run(args, func(t *testing.T) {
			s, c := pair(t, nil, "cmtime", "-b LOCAL "+args, "cmtime", "-s SERVER -b LOCAL "+args)
			for _, e := range []*end{s, c} {
				out := e.stdout.String()
				require.Contains(t, out, " warmup\n")
				require.Contains(t, out, label+"  ")
				require.Contains(t, out, " test - no QPs\n")
				require.Contains(t, out, "\tDisconnecting\n")
				require.Equal(t, 2, strings.Count(out, "\ndestroy qp "))
				require.Regexp(t, regexp.MustCompile(`(?m)^cm connect( +\d+){2}( +\d+){4}$`), out)
			}
		})
	}
}

// A server without the TCP port is an old one: one test, in no particular step.
func TestTimingOldServer(t *testing.T) {
	_, c := pair(t, nil, "ucmatose", "-b LOCAL -C 0 -c 6", "cmtime", "-s SERVER -b LOCAL -c 6")
	require.Equal(t, 1, strings.Count(c.stdout.String(), "\nfull connect "))
	require.Contains(t, c.stderr.String(), "no TCP port 7471")
}

// A client without TCP connection is an old one; it is served as many times as
// it likes, and nothing of it remains.
func TestTimingOldClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at := toolcheck.Addr(t)
	var dev *verbs.Device
	open := func(cfg verbs.Config) (*verbs.Device, func() error, error) {
		var err error
		dev, err = verbs.Open(cfg)
		return dev, dev.Close, err
	}
	s, _ := startServer(t, ctx, open, "cmtime", "-b "+at.String())
	client, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{toolcheck.Addr(t)}})
	require.NoError(t, err)
	defer client.Close()
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: client}}
	for range 20 {
		c, err := d.DialAddr(ctx, on(at, timingPort))
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	cancel()
	<-s.done
	require.ErrorIs(t, s.err, context.Canceled)
	require.Contains(t, s.stderr.String(), "rdma-core before 52")
}

func TestTimingRefused(t *testing.T) {
	at := toolcheck.Addr(t).String()
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := startServer(t, ctx, nil, "rdma_server", "-s "+at)
	c := start(t, ctx, nil, "cmtime", "-c 2 -p 7999 -s "+at+" --addr "+toolcheck.Addr(t).String())
	<-c.done
	require.ErrorContains(t, c.err, "connection 1 of 2: event: RDMA_CM_EVENT_REJECTED, error: 8")
	cancel()
	<-s.done
}

func TestSyncOutOfStep(t *testing.T) {
	for name, ends := range map[string]struct {
		sent []byte
		want string
	}{
		"another step": {[]byte{7}, "the peer is at step 7, this side at 12"},
		"hung up":      {nil, "wait for the peer, at step 12: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			go func() {
				_, _ = b.Write(ends.sent) // the other end sees what arrives
				_ = b.Close()
			}()
			require.ErrorContains(t, (&syncConn{a}).answer(t.Context(), byte(stepConnect)), ends.want)
		})
	}
	a, b := net.Pipe()
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, (&syncConn{a}).answer(ctx, 0), context.Canceled)
}

func TestTimingTable(t *testing.T) {
	var out bytes.Buffer
	s := &side{env: &tool.Env{Stdout: &out}}
	at := time.Unix(1000, 0)
	us := func(n int) span { return span{at, at.Add(time.Duration(n) * time.Microsecond)} }
	var all spans
	all[stepConnect] = us(100)
	conns := []*timed{{}, {}, {}, {}}
	for i, n := range []int{20, 40, 60} { // the fourth has failed
		conns[i].spans[stepConnect], conns[i].spans[stepFull] = us(n), us(2*n)
	}
	s.table("qp_conn", &all, conns)
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, "qp_conn                 4", lines[0])
	require.Equal(t, "step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)", lines[2])
	require.Equal(t, "full connect            0          0          0          0        120         40", lines[3])
	require.Equal(t, "cm connect             25        100         30        120         60         20",
		lines[3+stepConnect])
	require.Len(t, lines, 3+int(steps)+1)
}
