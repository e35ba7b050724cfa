package conform

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/conformance/conform"
	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/peer"
)

// tokenEnv in the environment is --token, for where command lines can be read by others.
const tokenEnv = "GOROCE_AGENT_TOKEN"

// options is the command line.
type options struct {
	agents, cable, dev, token, addr, peerAddr, link, profile, only string
	junit, json, md, html, pcapDir                                 string
	drills                                                         []string
	self, list, merge, quick, verbose                              bool
	seed                                                           int64
	lanes                                                          int
	timeout, answer                                                time.Duration
}

func defaults() *options {
	return &options{timeout: time.Hour, answer: conform.AnswerTimeout, seed: 1, lanes: conform.DefaultLanes}
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Long: "agent", Arg: "host:port",
			Help: "the verbs agent of the peer; of two, with a comma, their devices against each other",
			Set:  getopt.String(&o.agents)},
		{Long: "cable", Arg: "if,if",
			Help: "with two agents: the network interfaces here that their devices are plugged into, to be the cable between them",
			Set:  getopt.String(&o.cable)},
		{Long: "self", Help: "against another process of this program, on this machine's loopback",
			Set: getopt.Bool(&o.self)},
		{Long: "token", Arg: "word", Help: "what the agent was started with (also " + tokenEnv + " in the environment)",
			Set: getopt.String(&o.token)},
		{Long: "dev", Arg: "name", Help: "the agent's device; by default the first one with an active port",
			Set: getopt.String(&o.dev)},
		{Long: "peer-addr", Arg: "ip",
			Help: "address of the agent's device, one of each family with a comma; by default the first in its GID table",
			Set:  getopt.String(&o.peerAddr)},
		{Long: "addr", Arg: "ip", Help: "address here, likewise; by default those with a route to the peer's",
			Set: getopt.String(&o.addr)},
		{Long: "link", Arg: "link", Help: "how packets travel here: " + strings.Join(peer.Links(), ", ") +
			" (default " + peer.DefaultLink + ")", Set: getopt.Choice(&o.link, peer.Links()...)},
		{Long: "profile", Arg: "name",
			Help: "what is expected where implementations differ: spec, rxe, connectx, goroce; by default by the device's name",
			Set:  getopt.String(&o.profile)},
		{Long: "only", Arg: "groups", Help: "only these groups, with commas: " + strings.Join(conform.Groups(), ",") +
			"; group/text for rows whose names have the text", Set: getopt.String(&o.only)},
		{Long: "drill", Arg: "path",
			Help: "play this script (docs/drills.md), or those of a folder, and nothing else; may be given again",
			Set:  func(s string) error { o.drills = append(o.drills, s); return nil }},
		{Long: "list", Help: "print the rows and what each rests on, and run nothing", Set: getopt.Bool(&o.list)},
		{Long: "quick", Help: "a subset", Set: getopt.Bool(&o.quick)},
		{Long: "seed", Arg: "n", Help: "where the contents of transfers come from (default 1)",
			Set: getopt.Int(&o.seed, 0, 1<<31-1)},
		{Long: "lanes", Arg: "n", Help: fmt.Sprintf("rows on their way at a time (default %d)", conform.DefaultLanes),
			Set: getopt.Int(&o.lanes, 1, 64)},
		{Long: "timeout", Arg: "time", Help: "limit for the whole run (default 1h)", Set: duration(&o.timeout)},
		{Long: "answer", Arg: "time",
			Help: fmt.Sprintf("how long the agent may take for an answer (default %v)", conform.AnswerTimeout),
			Set:  duration(&o.answer)},
		{Long: "junit", Arg: "file", Help: "also write the rows as JUnit XML", Set: getopt.String(&o.junit)},
		{Long: "json", Arg: "file", Help: "also write the rows, and all that reports are made of, as JSON",
			Set: getopt.String(&o.json)},
		{Long: "html", Arg: "file",
			Help: "also write a report as a page that needs nothing else, to hand on: what was tested, what differs, packets, authority",
			Set:  getopt.String(&o.html)},
		{Long: "md", Arg: "file", Help: "also write the report as Markdown", Set: getopt.String(&o.md)},
		{Long: "merge", Help: "run nothing, and make one report (--html, --md) of the JSON files named: a table of peers and features, and each peer's report",
			Set: getopt.Bool(&o.merge)},
		{Long: "pcap-dir", Arg: "dir",
			Help: "the packets of each failed row, and beside them what \"roce explain\" says of them",
			Set:  getopt.String(&o.pcapDir)},
		{Short: 'v', Long: "verbose", Help: "print each row as it comes, and not only those that fail",
			Set: getopt.Bool(&o.verbose)},
	}
}

// duration is the setter of a time, such as 90s or 10m.
func duration(dst *time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no length of time: use 90s, 10m, 1h", s)
		}
		*dst = d
		return nil
	}
}

// conform makes the run's options, but for the agents of --self.
func (o *options) conform() (c conform.Options, err error) {
	c = conform.Options{Link: o.link, Quick: o.quick, Seed: uint64(o.seed), Lanes: o.lanes, PcapDir: o.pcapDir}
	if o.only != "" {
		c.Only = strings.Split(o.only, ",")
		for _, only := range c.Only {
			if group, _, _ := strings.Cut(only, "/"); !known(group) {
				return c, getopt.Misuse("--only: there is no group %q; there are %s", group,
					strings.Join(conform.Groups(), ", "))
			}
		}
	}
	if len(o.drills) > 0 {
		if c.Drills, err = drill.Read(o.drills...); err != nil {
			return c, fmt.Errorf("--drill: %w", err)
		}
		for _, only := range c.Only {
			if group, _, _ := strings.Cut(only, "/"); group != "drills" {
				return c, getopt.Misuse("--only: with --drill there are drills only")
			}
		}
	}
	if o.profile != "" {
		if c.Profile, err = peer.ParseProfile(o.profile); err != nil {
			return c, getopt.Misuse("--profile: %w", err)
		}
	}
	if c.Addrs, err = addresses("--addr", o.addr); err != nil {
		return c, err
	}
	if c.PeerAddrs, err = addresses("--peer-addr", o.peerAddr); err != nil {
		return c, err
	}
	if o.agents != "" {
		for _, a := range strings.Split(o.agents, ",") {
			if _, _, err := net.SplitHostPort(a); err != nil {
				return c, getopt.Misuse("--agent: %w", err)
			}
			c.Agents = append(c.Agents, peer.AgentServer{Addr: a, Dev: o.dev, Token: o.tokenOr(), Timeout: o.answer})
		}
	}
	if o.cable != "" {
		c.Cable = strings.Split(o.cable, ",")
		if len(c.Cable) != 2 || len(c.Agents) != 2 {
			return c, getopt.Misuse(
				"--cable is for two agents, and names two interfaces: --agent A:PORT,B:PORT --cable eth1,eth2")
		}
	}
	switch n := len(c.Agents); {
	case o.list, o.merge:
	case o.self && n > 0:
		return c, getopt.Misuse("--self and --agent do not go together")
	case !o.self && n == 0:
		return c, getopt.Misuse("--agent or --self is needed")
	case n > 2:
		return c, getopt.Misuse("--agent: two agents at most, not %d", n)
	}
	return c, nil
}

func known(group string) bool {
	for _, g := range conform.Groups() {
		if g == group {
			return true
		}
	}
	return false
}

// tokenOr is the token of the option, or of the environment.
func (o *options) tokenOr() string {
	if o.token != "" {
		return o.token
	}
	return os.Getenv(tokenEnv)
}

func addresses(option, s string) (out []netip.Addr, err error) {
	if s == "" {
		return nil, nil
	}
	for _, text := range strings.Split(s, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, getopt.Misuse("%s: %w", option, err)
		}
		out = append(out, a)
	}
	return out, nil
}
