package rdmacm

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

// find returns a subcommand.
func find(t *testing.T, name string) tool.Command {
	for _, c := range Commands() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no tool %s", name)
	return tool.Command{}
}

// end is one side of a run.
type end struct {
	stdout, stderr toolcheck.Output
	err            error
	listening      chan netip.AddrPort
	done           chan struct{}
}

// start runs a tool in the background. Arguments are separated by blanks.
func start(t *testing.T, ctx context.Context, open tool.OpenFunc, name, args string) *end {
	e := &end{listening: make(chan netip.AddrPort, 1), done: make(chan struct{})}
	cmd := find(t, name)
	env := &tool.Env{Stdout: &e.stdout, Stderr: &e.stderr, Open: open,
		Listening: func(a netip.AddrPort) { e.listening <- a }}
	go func() {
		defer close(e.done)
		e.err = cmd.Run(ctx, env, strings.Fields(args))
	}()
	return e
}

// startServer runs a tool until it listens.
func startServer(t *testing.T, ctx context.Context, open tool.OpenFunc, name, args string) (*end, netip.AddrPort) {
	e := start(t, ctx, open, name, args)
	select {
	case a := <-e.listening:
		return e, a
	case <-e.done:
		t.Fatalf("%s %s: %v\n%s", name, args, e.err, e.stderr.String())
	}
	return nil, netip.AddrPort{}
}

// wait waits for the end.
func (e *end) wait(t *testing.T) *end {
	<-e.done
	require.NoError(t, e.err, "%s%s", e.stdout.String(), e.stderr.String())
	return e
}

// pair runs a server and a client, in whose arguments SERVER, PORT and LOCAL
// stand for the server's address and port and an address for the side itself.
func pair(t *testing.T, open tool.OpenFunc,
	serverTool, serverArgs, clientTool, clientArgs string) (server, client *end) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	local := func(args string) string {
		if !strings.Contains(args, "LOCAL") {
			return args
		}
		return strings.ReplaceAll(args, "LOCAL", toolcheck.Addr(t).String())
	}
	server, at := startServer(t, ctx, open, serverTool, local(serverArgs))
	args := strings.ReplaceAll(local(clientArgs), "SERVER", at.Addr().String())
	client = start(t, ctx, open, clientTool, strings.ReplaceAll(args, "PORT", itoa(int(at.Port()))))
	<-client.done
	if client.err != nil {
		cancel() // the server may wait for ever
		<-server.done
		t.Fatalf("client: %v\n%s%s\nserver: %v\n%s%s", client.err, client.stdout.String(), client.stderr.String(),
			server.err, server.stdout.String(), server.stderr.String())
	}
	return server.wait(t), client
}
