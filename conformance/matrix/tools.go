package matrix

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/peer"
)

// Host runs programs at one end of the tools' matrix: a guest with the originals, or
// this machine with the stand-ins.
type Host interface {
	// Name says whose programs these are.
	Name() string
	// Addr is where its servers listen.
	Addr(f peer.Family) string
	// Command turns the original's name and arguments into what is run here; ok is false
	// if there is no such program.
	Command(tool string, args []string) (argv []string, ok bool)
	// GIDIndex is the argument of -g (ibv_*) and -x (perftest).
	GIDIndex(f peer.Family) int
	// Start starts a command.
	Start(ctx context.Context, argv []string) (Process, error)
	// Listening waits until something listens on a TCP port, or p has ended, which is an error.
	Listening(ctx context.Context, p Process, port int) error
	// ListeningCM waits until p listens on a port of RDMA-CM.
	ListeningCM(ctx context.Context, p Process, port int) error
	// Joined waits until p receives what is sent to a multicast group.
	Joined(ctx context.Context, p Process, group netip.Addr) error
}

// Process is a program that runs.
type Process interface {
	Wait() error
	Done() <-chan struct{}
	Output() string
	Kill()
}

// Original is a Process that is an original program, of which some wait for ever where their
// stand-ins end.
type Original interface {
	Process
	Original()
}

// tool is one program with arguments.
type tool struct {
	name  string
	args  []string
	label string // arguments as the table shows them
	size  int
	iters int
	mtu   int
	v6    bool
	want  string // what the client prints when all is well
}

const (
	// toolTimeout is for one run of two programs, of which the longest takes 10 s where nothing
	// else needs the CPU.
	toolTimeout = 4 * time.Minute
	// partingTime is how long a program may take to end when there is nothing more to come for
	// it: the other one has failed, or has sent all of its datagrams.
	partingTime = 20 * time.Second

	// DefaultPort is the TCP port that perftest and the pingpongs use unless told.
	DefaultPort = 18515
	// PortRange is how many TCP ports a run of the tools counts up from Env.FirstPort at
	// most: runs side by side that share an address have first ports so far apart.
	PortRange = 200
)

// pingpong is an ibv_*_pingpong: -c compares each byte.
func pingpong(kind string, mtu, size, iters int, v6 bool, more ...string) tool {
	t := tool{name: "ibv_" + kind + "_pingpong", size: size, iters: iters, mtu: mtu, v6: v6, want: "iters in"}
	t.args = append([]string{"-s", strconv.Itoa(size), "-n", strconv.Itoa(iters)}, more...)
	if kind == "rc" || kind == "uc" || kind == "srq" {
		t.args = append(t.args, "-m", strconv.Itoa(mtu))
	}
	t.label = strings.Join(more, " ")
	return t
}

// perf is an ib_*_bw or ib_*_lat.
func perf(name string, mtu, size, iters int, v6 bool, more ...string) tool {
	t := tool{name: "ib_" + name, size: size, iters: iters, mtu: mtu, v6: v6, want: "#bytes"}
	t.args = append(
		[]string{"-F", "-s", strconv.Itoa(size), "-n", strconv.Itoa(iters), "-m", strconv.Itoa(mtu)}, more...)
	if strings.HasPrefix(name, "atomic") { // its size is fixed
		t.args = append([]string{"-F", "-n", strconv.Itoa(iters), "-m", strconv.Itoa(mtu)}, more...)
	}
	t.label = strings.Join(more, " ")
	return t
}

// iterationsOf is how many messages of size bytes a test of perftest moves that would move n. The
// subset moves less of the large ones: an emulated guest copies and checks 64 KiB in 5 ms, which is
// most of what such a test takes.
func iterationsOf(full bool, size, n int) int {
	if full || size < 65536 {
		return n
	}
	return n / 4
}

// tools are the unmodified programs of rdma-core and perftest.
func tools(full bool) []tool {
	perf := func(name string, mtu, size, iters int, v6 bool, more ...string) tool {
		return perf(name, mtu, size, iterationsOf(full, size, iters), v6, more...)
	}
	list := []tool{
		pingpong("rc", 1024, 4096, 200, false, "-c"),
		pingpong("rc", 4096, 65536, 100, true, "-c"),
		pingpong("rc", 1024, 4096, 200, false, "-e"),
		pingpong("uc", 1024, 4096, 200, false, "-c"),
		pingpong("ud", 4096, 2048, 200, false, "-c"),
		pingpong("srq", 1024, 4096, 200, false, "-c"),
		perf("write_bw", 4096, 65536, 200, false),
		perf("write_bw", 1024, 65536, 100, true),
		perf("read_bw", 4096, 65536, 200, false),
		perf("send_bw", 4096, 65536, 200, false),
		perf("atomic_bw", 1024, 8, 200, false, "-A", "FETCH_AND_ADD"),
		perf("atomic_bw", 1024, 8, 200, false, "-A", "CMP_AND_SWAP"),
		perf("write_lat", 4096, 64, 200, false),
		perf("read_lat", 4096, 64, 200, false),
		perf("send_lat", 4096, 64, 200, false),
		perf("atomic_lat", 1024, 8, 200, false),
		perf("write_bw", 4096, 65536, 100, false, "-b"),
		perf("write_bw", 4096, 65536, 100, false, "-q", "4"),
		perf("send_bw", 4096, 4096, 200, false, "-c", "UD"),
		perf("write_bw", 4096, 65536, 200, false, "-c", "UC"),
	}
	if full {
		for _, mtu := range []int{256, 512, 1024, 2048} {
			list = append(list, pingpong("rc", mtu, 16384, 100, false, "-c"),
				perf("write_bw", mtu, 16384, 100, false), perf("read_bw", mtu, 16384, 100, true))
		}
		list = append(list,
			perf("send_bw", 4096, 65536, 100, false, "-b"),
			perf("read_bw", 4096, 65536, 100, false, "-q", "4"),
			perf("write_bw", 4096, 65536, 5, false, "-a"),
			perf("send_lat", 4096, 1024, 100, false, "-c", "UD"),
			pingpong("uc", 4096, 65536, 100, true, "-c"),
		)
	}
	return list
}

// Tools runs the unmodified programs between two hosts. The subject's program is the
// client in one run and the server in the other.
func (e *Env) Tools(ctx context.Context, subject, ref Host) error {
	port := e.FirstPort
	for _, role := range []string{"client", "server"} {
		for _, t := range tools(e.Full) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !strings.Contains(t.name+" "+t.label, e.OnlyTool) {
				continue
			}
			port++
			f := peer.V4
			if t.v6 {
				f = peer.V6
			}
			row := Row{Kernel: e.Kernel, Group: "tools", Op: strings.TrimSpace(t.name + " " + t.label),
				Role: role, Link: e.Link, MTU: t.mtu, Size: t.size, Family: string(f)}
			server, client := ref, subject
			if role == "server" {
				server, client = subject, ref
			}
			e.tryProgram(&row, 1, addrsOf(f, subject, ref), t.size*t.iters,
				func() outcome { return runTool(ctx, t, f, port, server, client) })
			e.Report.Add(row)
		}
	}
	return nil
}

// addrsOf are the addresses of two hosts.
func addrsOf(f peer.Family, a, b Host) [2]netip.Addr {
	return [2]netip.Addr{addrOf(f, a), addrOf(f, b)}
}

func addrOf(f peer.Family, h Host) netip.Addr { return netip.MustParseAddr(h.Addr(f)) }

// runTool runs one pair. The detail of a pass is the client's last line.
func runTool(ctx context.Context, t tool, f peer.Family, port int, server, client Host) outcome {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	argv := func(h Host, last ...string) ([]string, bool) {
		gid := []string{"-g", strconv.Itoa(h.GIDIndex(f))}
		if strings.HasPrefix(t.name, "ib_") {
			gid[0] = "-x"
		}
		args := append(append([]string{}, withPatience(t.name, t.args)...), "-p", strconv.Itoa(port))
		return h.Command(t.name, append(append(args, gid...), last...))
	}
	// perftest listens on IPv4 unless told; the addresses that count are in the GIDs.
	sargv, ok := argv(server)
	if !ok {
		return outcome{detail: fmt.Sprintf("%s has no %s", server.Name(), t.name), result: Skip}
	}
	cargv, ok := argv(client, server.Addr(peer.V4))
	if !ok {
		return outcome{detail: fmt.Sprintf("%s has no %s", client.Name(), t.name), result: Skip}
	}
	return runPair(ctx, pairRun{
		family: f, server: server, client: client, sargv: sargv, cargv: cargv, want: t.want,
		ready: func(ctx context.Context, p Process) error { return server.Listening(ctx, p, port) },
	})
}

// pairRun is a server and a client.
type pairRun struct {
	family         peer.Family
	server, client Host
	sargv, cargv   []string
	ready          func(context.Context, Process) error // waits until the server listens
	want           string                               // what the client prints when all is well
	stays          bool                                 // the server does not end by itself
	lossy          bool                                 // what the client sends may get lost
}

// runPair runs a server, and then a client, until both end. The detail of a pass is the
// client's last line.
func runPair(ctx context.Context, r pairRun) outcome {
	s, err := r.server.Start(ctx, r.sargv)
	if err != nil {
		return outcome{detail: err.Error(), result: Fail}
	}
	defer s.Kill()
	explain := func(what string, err error, c Process) outcome {
		var gaveUp []netip.Addr
		if exhausted(s.Output()) {
			gaveUp = append(gaveUp, addrOf(r.family, r.server))
		}
		if c != nil && exhausted(c.Output()) {
			gaveUp = append(gaveUp, addrOf(r.family, r.client))
		}
		d := fmt.Sprintf("%s: %v\nserver: %s\n%s", what, err, strings.Join(r.sargv, " "), s.Output())
		if c != nil {
			d += fmt.Sprintf("\nclient: %s\n%s", strings.Join(r.cargv, " "), c.Output())
		}
		return outcome{detail: d, result: Fail, gaveUp: gaveUp}
	}
	if err := r.ready(ctx, s); err != nil {
		return explain("server does not listen", err, nil)
	}
	c, err := r.client.Start(ctx, r.cargv)
	if err != nil {
		return explain("client", err, nil)
	}
	defer c.Kill()
	select {
	case <-c.Done():
	case <-s.Done():
		// An original whose peer is gone may wait for ever.
		if s.Wait() != nil && !parts(ctx, c) {
			return explain("server", s.Wait(), c)
		}
	}
	if err := c.Wait(); err != nil {
		return explain("client", err, c)
	}
	if !r.stays {
		wait := ends
		if r.lossy {
			wait = parts
		}
		if !wait(ctx, s) {
			return explain("server", fmt.Errorf("still runs after the client has ended"), c)
		}
		if err := s.Wait(); err != nil {
			return explain("server", err, c)
		}
	}
	for _, out := range []string{c.Output(), s.Output()} {
		if strings.Contains(out, "invalid data") || strings.Contains(out, "Failed status") {
			o := explain("a side", fmt.Errorf("reported wrong data"), c)
			o.wrong = strings.Contains(out, "invalid data")
			return o
		}
	}
	if !strings.Contains(c.Output(), r.want) {
		return explain("client", fmt.Errorf("printed no table (%q)", r.want), c)
	}
	return outcome{detail: lastLine(c.Output()), result: Pass}
}

// ends waits for a program's end as long as ctx lasts.
func ends(ctx context.Context, p Process) bool {
	select {
	case <-p.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// parts is ends for one that has nothing more to wait for.
func parts(ctx context.Context, p Process) bool {
	ctx, cancel := context.WithTimeout(ctx, partingTime)
	defer cancel()
	return ends(ctx, p)
}

// lastLine is the last line with figures in it.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.ContainsAny(lines[i], "0123456789") {
			return strings.Join(strings.Fields(lines[i]), " ")
		}
	}
	return ""
}
