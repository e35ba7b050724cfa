package toolcheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/stretchr/testify/require"
)

// rocePort is the UDP port that each device needs on its address.
const rocePort = 4791

// Addr returns an address of 127/8 on which a device can be opened, different
// each time, also from those of other tests that run at the same time.
func Addr(t *testing.T) netip.Addr {
	t.Helper()
	for range 1000 {
		var r [3]byte
		_, err := rand.Read(r[:])
		require.NoError(t, err)
		a := netip.AddrFrom4([4]byte{127, 64 + r[0]&127, r[1], max(r[2], 1)})
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, rocePort)))
		if err == nil {
			require.NoError(t, c.Close())
			return a
		}
	}
	t.Fatal("no free address in 127/8")
	return netip.Addr{}
}

// Patient are the options of the perf tests for an ACK timeout of about a second instead of 67 ms:
// on a machine with more to do than CPUs, a thread may not run for longer than eight of the latter,
// which would be taken for a dead peer.
var Patient = []string{"-u", "18"}

// Side is one side of a run.
type Side struct {
	Args   []string
	Open   tool.OpenFunc // nil: a device of its own
	Addr   string        // --addr; empty: one of 127/8 of its own
	Stdout bytes.Buffer
	Stderr bytes.Buffer
	Err    error
}

// Run runs both sides of a tool until they end. The port is added to the arguments.
func Run(t *testing.T, cmd tool.Command, server, client *Side) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listening := make(chan netip.AddrPort, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.run(t, ctx, cmd, []string{"-p", "0"}, func(a netip.AddrPort) { listening <- a })
	}()
	select {
	case at := <-listening:
		host := "127.0.0.1"
		if a := at.Addr(); a.IsLoopback() {
			host = a.String() // RDMA-CM listens where the device is
		}
		client.run(t, ctx, cmd, []string{"-p", strconv.Itoa(int(at.Port())), host}, nil)
		if client.Err != nil {
			cancel() // the server may wait for ever
		}
	case <-done:
	}
	<-done
}

func (s *Side) run(t *testing.T, ctx context.Context, cmd tool.Command, extra []string,
	listening func(netip.AddrPort)) {
	env := &tool.Env{Stdout: &s.Stdout, Stderr: &s.Stderr, Open: s.Open, Listening: listening}
	if s.Addr == "" {
		s.Addr = Addr(t).String()
	}
	args := append([]string{"--addr", s.Addr}, s.Args...)
	s.Err = cmd.Run(ctx, env, append(args, extra...))
}
