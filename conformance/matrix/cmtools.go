package matrix

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/conformance/peer"
)

// cmTool is a pair of programs that connect through RDMA-CM. In the arguments SERVER
// stands for the server's address, LOCAL for the side's own, and GROUP for a multicast
// address that no other run uses.
type cmTool struct {
	server, client string // programs
	sargs, cargs   string
	port           int  // RDMA-CM; 0: nobody listens, the server joins a group
	tcp            bool // it listens on the same TCP port, too
	stays          bool // the server does not end by itself
	tries          int  // for datagrams, which may be lost; 0 is 1
	size, count    int  // of what is sent: count times size bytes or more; a count of 0 is 1
	v6             bool
	want           string // in what the client prints
	label          string
	lacking        map[string]string // why the original cannot, by kernel
}

func (t cmTool) onV6() cmTool { t.v6 = true; return t }

// times says how often size bytes are sent.
func (t cmTool) times(n int) cmTool { t.count = n; return t }

// both makes a case of a program that is client and server.
func both(name string, port, size int, args, sargs, cargs, want string) cmTool {
	return cmTool{
		server: name, client: name, port: port, size: size, want: want, label: args,
		sargs: strings.TrimSpace(sargs + " " + args), cargs: strings.TrimSpace(cargs + " " + args),
	}
}

const nodesWant = "return status 0"

// cmTools are the unmodified programs that connect through RDMA-CM.
func cmTools(full bool) []cmTool {
	const messages = 10 // that ucmatose and its like send over a connection
	rping := func(size, count int) cmTool {
		return both("rping", 7174, size, fmt.Sprintf("-S %d -C %d -v -V", size, count), "-s -a SERVER",
			"-c -a SERVER", fmt.Sprintf("ping data: rdma-ping-%d:", count-1)).times(count)
	}
	ucmatose := func(conns, size int) cmTool {
		return both("ucmatose", 7471, size, fmt.Sprintf("-c %d -S %d", conns, size), "-b SERVER", "-s SERVER",
			nodesWant).times(conns * messages)
	}
	udaddy := both("udaddy", 7174, 1000, "-c 3 -S 1000", "-b SERVER", "-s SERVER", nodesWant).times(3 * messages)
	endpoint := cmTool{server: "rdma_server", client: "rdma_client", port: 7471, size: 16, want: "end 0",
		sargs: "-s SERVER", cargs: "-s SERVER"}
	mckey := both("mckey", 0, 1000, "-m GROUP -S 1000", "-b LOCAL", "-s -b LOCAL", nodesWant)
	// No -T a (poll): the original takes the peer's end for an error when it comes together with
	// the last data, with itself as the peer, too.
	rsocket := func(name string, size, count int, args string) cmTool {
		all := strings.Join(strings.Fields(fmt.Sprintf("-S %d -C %d %s -T v", size, count, args)), " ")
		return both(name, 7471, size, all, "-b SERVER", "-s SERVER", "\ncustom ").times(count)
	}
	// The original destroys its queue pair as soon as it has posted its sends, and not
	// always are they on the wire by then (6.12, whose rxe sends from a work queue).
	mckey.tries, mckey.count = 5, messages
	mckey6 := mckey.onV6()
	const noGroup6 = "Linux refuses to join an IPv6 group on RoCE (ENOTSUPP)"
	mckey6.lacking = map[string]string{"6.1": noGroup6, "6.12": noGroup6}
	list := []cmTool{
		rping(4096, 20), rping(65535, 5).onV6(),
		ucmatose(5, 6000), ucmatose(1, 100).onV6(),
		udaddy, udaddy.onV6(),
		endpoint, endpoint.onV6(),
		// More than the 384 credits of a connection, and more than its buffers.
		rsocket("rstream", 100, 500, ""), rsocket("rstream", 3000, 50, "-I 4").onV6(),
		rsocket("rstream", 300000, 10, ""), rsocket("rstream", 20000, 10, "-I 2 -B 3000 -T b"),
		rsocket("riostream", 3000, 50, "-I 4"), rsocket("riostream", 100000, 10, "-I 2").onV6(),
		mckey, mckey6,
	}
	// perftest with -R: control and QPs of the test connect through RDMA-CM.
	perf := func(name string, size, iters int, more string) cmTool {
		iters = iterationsOf(full, size, iters)
		args := fmt.Sprintf("-R -F -n %d %s", iters, more)
		if !strings.HasPrefix(name, "atomic") {
			args = fmt.Sprintf("-R -F -s %d -n %d %s", size, iters, more)
		}
		t := both("ib_"+name, 18515, size, strings.TrimSpace(args), "", "", "#bytes").times(iters)
		t.cargs += " SERVER"
		return t
	}
	perf6 := func(name string, size, iters int, more string) cmTool {
		t := perf(name, size, iters, strings.TrimSpace("--ipv6-addr "+more)).onV6()
		t.lacking = map[string]string{"6.1": "perftest 6.06 connects -R over IPv4 only (no --ipv6-addr)"}
		return t
	}
	list = append(list,
		perf("write_bw", 65536, 100, ""), perf("write_bw", 65536, 50, "-q 4 -b"),
		perf("read_bw", 65536, 100, ""), perf("atomic_bw", 8, 100, ""),
		perf("send_bw", 65536, 100, ""), perf("send_bw", 1024, 100, "-c UD"),
		perf("send_lat", 64, 100, ""), perf("send_lat", 64, 100, "-c UD"), perf("write_lat", 64, 100, ""),
		perf("read_lat", 64, 100, ""), perf("atomic_lat", 8, 100, ""),
		perf6("write_bw", 65536, 50, "-q 4 -b"), perf6("read_bw", 65536, 100, ""),
		perf6("atomic_bw", 8, 100, ""), perf6("send_bw", 65536, 100, ""),
		perf6("send_bw", 1024, 100, "-c UD"), perf6("send_lat", 64, 100, ""),
		perf6("send_lat", 64, 100, "-c UD"), perf6("write_lat", 64, 100, ""),
		perf6("read_lat", 64, 100, ""), perf6("atomic_lat", 8, 100, ""),
	)
	if full {
		list = append(list, rping(26, 100), ucmatose(50, 100),
			rsocket("rstream", 1, 1000, "-I 2"), rsocket("rstream", 1<<20, 4, "").onV6(), rsocket("rstream",
				5000, 20, "-k 1"),
			rsocket("riostream", 2, 3, "-I 50").onV6(), rsocket("riostream", 1<<20, 4, ""))
	}
	return list
}

// cmtime makes many connections at a time, and ends them. That of rdma-core 44, which is in the
// guest with kernel 6.1, has no TCP connection beside, and a server that stays. An emulated guest
// on a slow machine needs half a minute for the requests of 1,000, and longer for what is left of
// those if one of them is given up then, which the next row meets.
func (e *Env) cmtime() cmTool {
	conns := 100
	if e.Full {
		conns = 300
	}
	old := e.kernel() == "6.1"
	args := fmt.Sprintf("-c %d", conns)
	if !old {
		// The default for pretended queue pairs, 1000, is among the numbers that rxe has
		// just given to so many real ones: "stale connection", say both rxe and goroce.
		args += " -q 100000"
	}
	t := both("cmtime", 7471, 0, args, "-b SERVER", "-s SERVER", "disconnect")
	t.tcp, t.stays = !old, old
	return t
}

// cmtimeV6 is the same over IPv6, where the original can.
func (e *Env) cmtimeV6() cmTool {
	t := e.cmtime().onV6()
	t.lacking = map[string]string{
		"6.12": "cmtime of rdma-core 56 looks for the peer that it keeps step with over TCP on IPv4 only",
	}
	return t
}

// kernel is the first of the kernels in a run, like "6.1", be it on another machine or an older one
// of that name.
func (e *Env) kernel() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(e.Kernel, "rxe "), " ")
	name, _, _ = strings.Cut(name, "-")
	return name
}

// CMTools runs the unmodified programs that use RDMA-CM between two hosts, as Tools does.
func (e *Env) CMTools(ctx context.Context, subject, ref Host) error {
	for _, role := range []string{"client", "server"} {
		for _, t := range append(cmTools(e.Full), e.cmtime(), e.cmtimeV6()) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !strings.Contains(t.client+" "+t.server+" "+t.label, e.OnlyTool) {
				continue
			}
			f := peer.V4
			if t.v6 {
				f = peer.V6
			}
			row := Row{Kernel: e.Kernel, Group: "rdmacm", Op: strings.TrimSpace(t.client + " " + t.label),
				Role: role, Link: e.Link, Size: t.size, Family: string(f)}
			if why := t.lacking[e.kernel()]; why != "" {
				row.Result, row.Detail = Skip, why
				e.Report.Add(row)
				continue
			}
			server, client := ref, subject
			if role == "server" {
				server, client = subject, ref
			}
			e.tryProgram(&row, max(t.tries, 1), addrsOf(f, subject, ref), t.size*max(t.count, 1),
				func() outcome { return e.runCMTool(ctx, t, f, server, client) })
			e.Report.Add(row)
		}
	}
	return nil
}

func (e *Env) runCMTool(ctx context.Context, t cmTool, f peer.Family, server, client Host) outcome {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	group := fmt.Sprintf("239.77.%d.7", e.FirstPort/PortRange%256)
	if f == peer.V6 {
		group = fmt.Sprintf("ff0e::77:%x", e.FirstPort)
	}
	argv := func(h Host, tool, args string) ([]string, bool) {
		r := strings.NewReplacer("SERVER", server.Addr(f), "LOCAL", h.Addr(f), "GROUP", group)
		return h.Command(tool, withPatience(tool, strings.Fields(r.Replace(args))))
	}
	sargv, ok := argv(server, t.server, t.sargs)
	if !ok {
		return outcome{detail: fmt.Sprintf("%s has no %s", server.Name(), t.server), result: Skip}
	}
	cargv, ok := argv(client, t.client, t.cargs)
	if !ok {
		return outcome{detail: fmt.Sprintf("%s has no %s", client.Name(), t.client), result: Skip}
	}
	return runPair(ctx, pairRun{
		family: f, server: server, client: client, sargv: sargv, cargv: cargv, want: t.want, stays: t.stays,
		lossy: t.tries > 1,
		ready: func(ctx context.Context, p Process) error {
			if t.tcp {
				if err := server.Listening(ctx, p, t.port); err != nil {
					return err
				}
			}
			if t.port == 0 {
				return server.Joined(ctx, p, netip.MustParseAddr(group))
			}
			return server.ListeningCM(ctx, p, t.port)
		},
	})
}
