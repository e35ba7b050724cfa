package conform

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/conformance/agent"
	"github.com/goroce/goroce/conformance/peer"
)

const agentUsage = `conform agent: goroce as the peer of "roce conform" on another machine, until interrupted

Usage:
  roce conform agent [options]

One client at a time. It registers only memory of its own. The token keeps out programs that have the wrong
agent, not somebody who listens: use it among machines that you trust.

Options:
`

// agentOptions is the command line of the agent.
type agentOptions struct {
	tool.DeviceOptions
	listen, token string
	megabytes     int
	untilEOF      bool
	ipv6          bool
}

// defaultAgentPort is where verbsd listens, too.
const defaultAgentPort = "18400"

func (o *agentOptions) table() []getopt.Option {
	own := []getopt.Option{
		{Long: "listen", Arg: "ip:port",
			Help: "TCP address (default port " + defaultAgentPort + " of the device's address)",
			Set:  getopt.String(&o.listen)},
		{Long: "token", Arg: "word", Help: "what clients have to say (also " + tokenEnv +
			" in the environment); by default a new one, which is printed", Set: getopt.String(&o.token)},
		{Long: "max-memory", Arg: "MiB", Help: "what clients may allocate in all (default 1024)",
			Set: getopt.Int(&o.megabytes, 1, 1<<20)},
		{Long: "until-eof", Help: "end when standard input does", Set: getopt.Bool(&o.untilEOF)},
		{Long: "ipv6", Help: "use an IPv6 address by default", Set: getopt.Bool(&o.ipv6)},
	}
	return append(own, o.DeviceOptions.Options()...)
}

func runAgent(ctx context.Context, env *tool.Env, args []string) (err error) {
	o := &agentOptions{megabytes: agent.DefaultMaxBytes >> 20}
	operands, err := tool.Parse(agentUsage, o.table(), args)
	switch {
	case err != nil:
		return err
	case len(operands) > 0:
		return getopt.Misuse("unexpected argument %q", operands[0])
	}
	given := o.token != ""
	if o.token == "" {
		o.token = os.Getenv(tokenEnv)
		given = o.token != ""
	}
	if !given {
		if o.token, err = newToken(); err != nil {
			return err
		}
	}
	place, err := o.Choose("", o.ipv6)
	if err != nil {
		return err
	}
	dev, release, place, err := o.Open(env, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	at := o.listen
	if at == "" {
		at = net.JoinHostPort(place.Addrs[0].String(), defaultAgentPort)
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "listening on %v\n", l.Addr())
	if !given {
		fmt.Fprintf(env.Stdout, "on the other machine: roce conform --agent %v --token %s\n", l.Addr(), o.token)
	}
	if env.Listening != nil {
		env.Listening(l.Addr().(*net.TCPAddr).AddrPort())
	}
	if o.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	said := &locked{w: env.Stderr} // sessions end at any time
	srv := agent.New(agent.Config{
		Device: dev, Token: o.token, MaxBytes: int64(o.megabytes) << 20,
		Logf: func(format string, args ...any) { fmt.Fprintf(said, format+"\n", args...) },
	})
	return srv.Serve(ctx, l)
}

func newToken() (string, error) {
	var b [16]byte
	_, err := rand.Read(b[:])
	return hex.EncodeToString(b[:]), err
}

// selfAgent is the agent of another process of this program.
type selfAgent struct {
	peer.AgentServer
	local []netip.Addr // for this side
}

// listeningLine is what the agent prints once it serves.
const listeningLine = "listening on "

// parseListening returns the address in the agent's first line.
func parseListening(line string) (string, error) {
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), listeningLine)
	if !ok {
		return "", fmt.Errorf("the other process says %q, and not where it listens", line)
	}
	return addr, nil
}
