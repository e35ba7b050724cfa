package perftest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// preambleBytes is version, page size, cache line and MTU.
const preambleBytes = versionBytes + 4 + 4 + 2

// How many messages of each kind the original of each test exchanges, from its
// source (perftest 4.5-0.17); a change of the order that both sides of this
// package share would otherwise go unnoticed.
func TestExchanges(t *testing.T) {
	const sizes = 23 // of -a
	for _, c := range []struct {
		test          Test
		args          string
		keys, reports int
		silent        bool // no goodbye
	}{
		{test: writeBW, keys: 5, reports: 1},
		{test: Test{Verb: Read}, keys: 5, reports: 1},
		{test: atomicBW, keys: 5, reports: 1},
		{test: writeBW, args: "-q 3", keys: 9, reports: 1},
		{test: writeBW, args: "-a -t 2", keys: 5, reports: 1},
		{test: writeBW, args: "-b", keys: 5, reports: 1},
		{test: writeBW, args: "-b -q 2 -a -t 2", keys: 2*2 + 1 + 2*sizes + 1, reports: sizes},
		{test: atomicBW, args: "-b -a", keys: 5, reports: 1},
		{test: sendBW, keys: 5},
		{test: sendBW, args: "-q 3", keys: 9},
		{test: sendBW, args: "-b", keys: 5, reports: 1},
		{test: sendBW, args: "-a -t 2", keys: 3 + 2*sizes + 1},
		{test: sendBW, args: "-a -b -t 2", keys: 3 + 2*sizes + 1, reports: sizes},
		{test: sendLat, keys: 5},
		{test: sendLat, args: "-a", keys: 3 + sizes + 1},
		{test: Test{Verb: Write, Latency: true}, keys: 4, silent: true},
		{test: Test{Verb: Write, Latency: true}, args: "-a", keys: 4, silent: true},
		{test: readLat, keys: 5},
		{test: readLat, args: "-a", keys: 5},
		{test: Test{Verb: Atomic, Latency: true}, keys: 5},
	} {
		if (testing.Short() || seeds.Race) && strings.Contains(c.args, "-a") && !strings.Contains(c.args, "-b") {
			continue // 8 MiB each; those with -b exchange more
		}
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			args := append(strings.Fields(c.args), "-n", "5", "-s", "8")
			if strings.Contains(c.args, "-a") {
				args = append(strings.Fields(c.args), "-n", "5")
			}
			args = append(args, toolcheck.Patient...)
			goodbyeBytes := len("done\x00")
			want := preambleBytes + c.keys*destBytes + c.reports*reportFields*8
			if c.silent {
				goodbyeBytes = 0
			}
			want += goodbyeBytes
			toServer, toClient := countBytes(t, Command(c.test), args)
			// Nobody reads the goodbye; whether it gets through depends on who hangs up first.
			either := []int{want, want - goodbyeBytes}
			require.Contains(t, either, toServer, "client to server")
			require.Contains(t, either, toClient, "server to client")
		})
	}
}

// countBytes runs a tool against itself through a relay and returns how many bytes went each way.
func countBytes(t *testing.T, cmd tool.Command, args []string) (toServer, toClient int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer relay.Close()
	port := relay.Addr().(*net.TCPAddr).Port

	env := func(listening func(netip.AddrPort)) *tool.Env {
		return &tool.Env{Stdout: io.Discard, Stderr: io.Discard, Listening: listening}
	}
	at := make(chan netip.AddrPort, 1)
	serverErr := make(chan error, 1)
	clientErr := make(chan error, 1)
	serverArgs := append([]string{"--addr", toolcheck.Addr(t).String(), "-p", "0"}, args...)
	clientArgs := append([]string{"--addr", toolcheck.Addr(t).String(), "-p", strconv.Itoa(port), "127.0.0.1"}, args...)
	go func() { serverErr <- cmd.Run(ctx, env(func(a netip.AddrPort) { at <- a }), serverArgs) }()
	go func() { clientErr <- cmd.Run(ctx, env(nil), clientArgs) }()

	client, err := relay.Accept()
	require.NoError(t, err)
	defer client.Close()
	server, err := net.Dial("tcp", (<-at).String())
	require.NoError(t, err)
	defer server.Close()
	var wg sync.WaitGroup
	pump := func(dst, src net.Conn, n *int) {
		defer wg.Done()
		// Each side hangs up after its last message, while the other's may
		// still be on its way: a reset then is no failure.
		k, _ := io.Copy(dst, src)
		*n = int(k)
		_ = dst.(*net.TCPConn).CloseWrite()
	}
	wg.Add(2)
	go pump(server, client, &toServer)
	go pump(client, server, &toClient)
	require.NoError(t, <-clientErr)
	require.NoError(t, <-serverErr)
	wg.Wait()
	return toServer, toClient
}
