package rdmacm

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestPing(t *testing.T) {
	for name, more := range map[string]string{
		"plain": "", "big": "-S 65535", "small": "-S 26", "by hand": "-q", "debug": "-d", "polling": "--polling",
	} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(t, nil, "rping", "-s -v -a LOCAL "+more, "rping", "-c -a SERVER -I LOCAL -C 7 -v -V "+more)
			require.Contains(t, c.stdout.String(), "ping data: rdma-ping-6: GHIJK"[:24])
			require.Contains(t, s.stdout.String(), "server ping data: rdma-ping-6: ")
			require.NotContains(t, c.stdout.String(), "rdma-ping-7")
			require.Contains(t, s.stderr.String(), "server DISCONNECT EVENT...")
		})
	}
}

func TestPingIPv6(t *testing.T) {
	_, c := pair(t, toolcheck.Shared6(t), "rping", "-s -a ::", "rping", "-c -a SERVER -C 3 -v -V")
	require.Contains(t, c.stdout.String(), "rdma-ping-2")
}

// Several clients at a time, and the server lives until it is told to end.
func TestPingPersistent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, at := startServer(t, ctx, nil, "rping", "-s -P -a "+toolcheck.Addr(t).String())
	var clients []*end
	for range 4 {
		clients = append(clients,
			start(t, ctx, nil, "rping", "-c -V -C 50 -a "+at.Addr().String()+" -I "+toolcheck.Addr(t).String()))
	}
	for _, c := range clients {
		c.wait(t)
	}
	cancel()
	<-s.done
	require.ErrorIs(t, s.err, context.Canceled)
	require.Equal(t, 4, strings.Count(s.stderr.String(), "DISCONNECT EVENT"))
}

func TestPingRefused(t *testing.T) {
	a := toolcheck.Addr(t).String()
	s, _ := startServer(t, t.Context(), nil, "rping", "-s -P -a "+a)
	c := start(t, t.Context(), nil, "rping", "-c -p 7175 -a "+a+" -I "+toolcheck.Addr(t).String())
	<-c.done
	require.ErrorContains(t, c.err, "RDMA_CM_EVENT_REJECTED, error: 8 (nobody listens on that port)")
	select {
	case <-s.done:
		t.Fatal("the server has ended")
	default:
	}
}

func TestPingSizes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, at := startServer(t, ctx, nil, "rping", "-s -a "+toolcheck.Addr(t).String())
	c := start(t, ctx, nil, "rping", "-c -S 100 -a "+at.Addr().String()+" -I "+toolcheck.Addr(t).String())
	<-s.done
	require.ErrorContains(t, s.err, "give -S the same number")
	<-c.done
	require.ErrorContains(t, c.err, "the server has hung up")
}

func TestPingUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":               "-c/-s: one of them",
		"-c":             "needs the server's address",
		"-c -s -a ::1":   "one of them",
		"-s -S 1":        "not within 26 to 65535",
		"-s 10.0.0.1":    "is no option",
		"-s -a no..name": "no such host", // whatever the resolver, and without one
	} {
		e := start(t, t.Context(), nil, "rping", args)
		<-e.done
		require.ErrorContains(t, e.err, want, args)
	}
	e := start(t, t.Context(), nil, "rping", "-h")
	<-e.done
	require.ErrorContains(t, e.err, "roce rping -c")
}

func TestFill(t *testing.T) {
	b := make([]byte, 26)
	fill(b, 0)
	require.Equal(t, "rdma-ping-0: ABCDEFGHIJKL\x00", string(b))
	fill(b, 57)
	require.Equal(t, "rdma-ping-57: zABCDEFGHIJ\x00", string(b))
	fill(b, 58)
	require.Equal(t, "rdma-ping-58: ABCDEFGHIJK\x00", string(b))
	require.Equal(t, "rdma-ping-58: ABCDEFGHIJK", string(text(b)))
}
