// Package guests compares goroce with the kernel's rxe inside two emulated machines: the
// same kernel, the same network, the same perftest arguments, in turn.
//
// # Limits
//
// The emulated CPUs are slow, and instructions that cost little on hardware may cost a lot
// (PCLMULQDQ, on which Go's CRC-32 builds), so that this says how the two compare there, and
// nothing about hardware. Each guest has one CPU.
package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/conformance/lab"
)

// Options say what to run.
type Options struct {
	Suite string // whose kernel and perftest: "bookworm" or "trixie"
	CPU   string // QEMU's model; "" is DefaultCPU
	Link  string // of goroce; "" is "udp"
	// Program is a built goroce, such as that of another commit; "": it is built from this
	// checkout.
	Program string
	// Networks are those to run all tests on, one after the other; none: all of them.
	Networks []Network
	Only     *regexp.Regexp // the tests to run, by their names in the report; nil: all
	Rounds   int
	// Profiles, if not "", is a folder for CPU profiles of goroce's tools: TEST-client.pprof and
	// TEST-server.pprof, of the last round. A profile makes what it profiles slower.
	Profiles string
	Logf     func(string, ...any)
}

// Part reports whether some of the tests, or networks, are left out.
func (o *Options) Part() bool {
	return o.Only != nil || len(o.Networks) > 0 && len(o.Networks) < len(Networks())
}

// DefaultCPU is QEMU's model with all that it emulates. One without PCLMULQDQ
// ("max,-pclmulqdq"), on which Go's CRC-32 builds, makes goroce slower, not faster, and
// leaves rxe, which computes with tables here, as it is.
const DefaultCPU = "max"

// kernelArgs make the guests' kernels keep the time stamp counter as their clock. Under emulation
// it looks unstable to them, and they turn to the HPET, which no program can read without a system
// call and a trap into QEMU. Every machine that RoCE runs on has a usable counter.
const kernelArgs = "tsc=reliable"

// clockFile tells what the kernel's clock is.
const clockFile = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// Network is what is between the guests.
type Network string

const (
	// Bridge is a bridge of the kernel, as virtual machines usually are on one: their interfaces
	// have scatter-gather, checksum and segmentation offload.
	Bridge Network = "bridge"
	// Wire is that of the interop lab, which loses nothing, and where they have none.
	Wire Network = "wire"
)

// Networks are all there are.
func Networks() []Network { return []Network{Bridge, Wire} }

// Offloads says what the interfaces on it can do, for reports.
func (n Network) Offloads() string {
	if n == Bridge {
		return "offloads"
	}
	return "no offloads"
}

// bridge is the name of the bridge.
const bridge = "bench0"

const (
	// program is where goroce's tools are in a guest.
	program = "/tmp/roce"
	// timeoutCode makes QPs wait 1 s for an acknowledgement.
	timeoutCode = "18"
	// tries is how often a test may fail: guests on a busy machine lose packets.
	tries = 2
	// limit bounds one test.
	limit = time.Minute
)

// test is one comparison.
type test struct {
	tool    string // without ib_
	args    string
	polling bool // goroce polls the device; otherwise it is event-driven
	latency bool
	// libraries: perftest itself, on the verbs libraries, in place of the project's tool.
	libraries bool
	bytes     float64 // moved, for the CPU time of each
}

const mega = 1e6

// tests are perftest's, with the defaults of the tools but for what is named: bandwidth and
// latency of WRITE, READ and SEND, each with goroce event-driven and polling. Where perftest
// can sleep for events (-e), both do so in the event-driven row; its tests of WRITE cannot.
func tests() []test {
	var ts []test
	bw := func(tool string, mtu, n int) {
		const size = 65536
		for _, polling := range []bool{false, true} {
			t := test{tool: tool, args: fmt.Sprintf("-s %d -n %d -m %d", size, n, mtu), polling: polling,
				bytes: float64(n * size)}
			if !polling && tool != "write_bw" {
				t.args += " -e"
			}
			ts = append(ts, t)
		}
	}
	bw("write_bw", 4096, 300)
	bw("read_bw", 4096, 300)
	bw("send_bw", 4096, 300)
	bw("write_bw", 1024, 150)
	bw("read_bw", 1024, 150)
	bw("send_bw", 1024, 150)
	for _, tool := range []string{"write_lat", "read_lat", "send_lat"} {
		for _, polling := range []bool{false, true} {
			t := test{tool: tool, args: "-s 64 -n 1000 -m 4096", polling: polling, latency: true}
			if !polling && tool != "write_lat" {
				t.args += " -e"
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// mode is how goroce waits.
func (t *test) mode() string {
	if t.polling {
		return "polling"
	}
	return "event-driven"
}

// name is the name of the test in the report.
func (t *test) name() string { return t.op() + " " + t.args + ", " + t.mode() }

// op is what runs on goroce.
func (t *test) op() string {
	if t.libraries {
		return "ib_" + t.tool
	}
	return t.tool
}

// own are the arguments for goroce alone.
func (t *test) own() []string {
	if t.polling {
		return []string{"--polling"}
	}
	return []string{"--event"}
}

// Prepare makes what Run needs outside of the lab's namespace: the image. It is for lab.Enter.
func Prepare(suite string, logf func(string, ...any)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, errs := lab.Prepare(ctx, []string{suite}, logf)
		for _, err := range errs {
			return err
		}
		return nil
	}
}

// bench is a run.
type bench struct {
	o       Options
	network Network
	a, b    *lab.Guest
	port    int
}

// Run boots two guests on each network and returns a case for each test there, and what
// the guests are. Call lab.Enter first.
func Run(ctx context.Context, o Options) (cases []report.Case, what string, err error) {
	o.CPU, o.Link = cmp.Or(o.CPU, DefaultCPU), cmp.Or(o.Link, "udp")
	if len(o.Networks) == 0 {
		o.Networks = Networks()
	}
	dir, err := os.MkdirTemp("", "goroce-bench")
	if err != nil {
		return nil, what, err
	}
	defer os.RemoveAll(dir)
	bin := o.Program
	if bin == "" {
		bin = filepath.Join(dir, "roce")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/goroce/goroce/cmd/roce")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, what, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	l, err := lab.New(lab.Config{Logf: o.Logf})
	if err != nil {
		return nil, what, err
	}
	defer l.Close()
	im, err := lab.OpenImage(o.Suite)
	if err != nil {
		return nil, what, err
	}
	var clock string
	for _, n := range o.Networks {
		var on []report.Case
		w := &bench{o: o, network: n, port: 18515}
		clock, err = w.boot(ctx, l, im, bin)
		if err == nil {
			on, err = w.runAll(ctx)
		}
		w.close()
		cases = append(cases, on...)
		if err != nil {
			break
		}
	}
	what = fmt.Sprintf(
		"Debian %s, Linux %s, QEMU's CPU %s, one each, clock %s; virtio interfaces; goroce on the %s link",
		o.Suite, im.Kernel, o.CPU, clock, o.Link)
	return cases, what, err
}

// boot starts the guests, with goroce's tools in them, and returns the name of their clock.
func (w *bench) boot(ctx context.Context, l *lab.Lab, im *lab.Image, bin string) (clock string, err error) {
	on := ""
	if w.network == Bridge {
		on = bridge
	}
	for i, g := range []**lab.Guest{&w.a, &w.b} {
		cfg := lab.GuestConfig{Name: fmt.Sprintf("%s%d", w.network, i), Image: im, CPU: w.o.CPU, Bridge: on,
			KernelArgs: kernelArgs}
		if *g, err = l.Boot(ctx, cfg); err != nil {
			return "", err
		}
		if err = putFile(ctx, *g, bin, program); err != nil {
			return "", err
		}
		if haveLibraries() {
			if err = putLibraries(ctx, *g); err != nil {
				return "", err
			}
		}
	}
	clock, err = w.a.Run(ctx, "cat", clockFile)
	return strings.TrimSpace(clock), err
}

// close ends the guests.
func (w *bench) close() {
	for _, g := range []*lab.Guest{w.a, w.b} {
		if g != nil {
			g.Close()
		}
	}
}

// runAll runs all tests in every round and returns a case for each.
func (w *bench) runAll(ctx context.Context) (cases []report.Case, err error) {
	defer func() { // some may never have worked
		cases = slices.DeleteFunc(cases, func(c report.Case) bool { return len(c.Figures) == 0 })
	}()
	o := w.o
	tests := tests()
	if haveLibraries() {
		tests = append(tests, libraryTests()...)
	} else {
		o.Logf("perftest on the verbs libraries is not measured: \"make verbs\" makes them")
	}
	if o.Only != nil {
		tests = slices.DeleteFunc(tests, func(t test) bool { return !o.Only.MatchString(t.name()) })
	}
	for _, t := range tests {
		cases = append(cases, report.Case{
			Item: "lab", Name: t.name() + ", " + w.network.Offloads(), Link: o.Link, Op: t.op(),
			Mode: t.mode(), Place: w.network.Offloads(),
		})
	}
	failed := make([]error, len(tests))
	for range o.Rounds {
		var got [2][]result
		for k, own := range []bool{true, false} {
			if err := w.use(ctx, own); err != nil {
				return cases, err
			}
			got[k] = make([]result, len(tests))
			for i, t := range tests {
				for try := range tries {
					if failed[i] != nil && try == 0 {
						break // in another round
					}
					if got[k][i], failed[i] = w.run(ctx, t, own); failed[i] == nil {
						break
					}
					o.Logf("%s, try %d: %v", cases[i].Name, try+1, failed[i])
				}
			}
		}
		for i, t := range tests {
			if failed[i] != nil {
				continue
			}
			o.Logf("%s: goroce %.2f, rxe %.2f", cases[i].Name, got[0][i].value, got[1][i].value)
			addRound(&cases[i], &t, &got[0][i], &got[1][i])
		}
	}
	return cases, errors.Join(failed...)
}

// addRound adds to a case what goroce and rxe reached in a round.
func addRound(c *report.Case, t *test, own, rxe *result) {
	unit := "MB/s"
	if t.latency {
		unit = "us"
	}
	c.Add("x rxe", "", own.value/rxe.value)
	c.Add("goroce", unit, own.value)
	c.Add("rxe", unit, rxe.value)
	if t.latency {
		c.Add("p99 x rxe", "", own.p99/rxe.p99)
		return
	}
	c.Add("CPU x rxe", "", own.cpu/rxe.cpu)
	c.Add("goroce CPU", "s/GB", own.cpu/t.bytes*1e9)
	c.Add("rxe CPU", "s/GB", rxe.cpu/t.bytes*1e9)
}

// use gives UDP port 4791 of both guests to goroce or to rxe.
func (w *bench) use(ctx context.Context, own bool) error {
	for _, g := range []*lab.Guest{w.a, w.b} {
		script := "/usr/bin/rdma link delete " + g.Dev + " && rmmod rdma_rxe"
		if !own {
			script = "lsmod | grep -q ^rdma_rxe || modprobe rdma_rxe; /usr/bin/rdma link show | grep -q " +
				g.Dev + " || /usr/bin/rdma link add " + g.Dev + " type rxe netdev eth0"
		}
		if _, err := g.Run(ctx, "sh", "-c", script); err != nil {
			return fmt.Errorf("guest %s: %w", g.Name, err)
		}
	}
	return nil
}

// result is what a test printed.
type result struct {
	value, p99 float64 // MB/s, or microseconds
	cpu        float64 // seconds of both guests
}

// run runs a test once.
func (w *bench) run(ctx context.Context, t test, own bool) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w.port++
	argv := []string{"ib_" + t.tool}
	if own && !t.libraries {
		argv = []string{program, t.tool}
	}
	// Nothing is lost on the way between the guests, but a guest may have no CPU for longer than
	// the default timeout and its retries (half a second).
	argv = append(append(argv, "-F", "-u", timeoutCode, "-p", strconv.Itoa(w.port)), strings.Fields(t.args)...)
	start := func(g *lab.Guest, more ...string) (*lab.Proc, error) {
		a := argv
		device := []string{"--link", w.o.Link, "--addr", g.Addr4.String()}
		switch {
		case own && t.libraries:
			a = append([]string{program, "run"}, device...)
			if t.polling {
				a = append(a, "--polling")
			}
			a = append(append(a, "--"), argv...)
		case own:
			a = append(slices.Clone(argv), append(t.own(), device...)...)
		}
		return g.Start(ctx, lab.Cmd{Argv: append(slices.Clone(a), more...), Env: w.profileEnv(own)})
	}
	server, err := start(w.b)
	if err != nil {
		return r, err
	}
	defer server.Kill()
	listening := fmt.Sprintf(":%04X ", w.port)
	for {
		text, err := w.b.Run(ctx, "cat", "/proc/net/tcp", "/proc/net/tcp6")
		if err != nil {
			return r, err
		}
		if strings.Contains(text, listening) {
			break
		}
		select {
		case <-server.Done():
			return r, fmt.Errorf("%s: the server ended: %s", strings.Join(argv, " "), server.Output())
		default:
		}
	}
	before, err := w.cpu(ctx)
	if err != nil {
		return r, err
	}
	client, err := start(w.a, w.b.Addr4.String())
	if err != nil {
		return r, err
	}
	if err = errors.Join(client.Wait(), server.Wait()); err != nil {
		return r, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, client.Output())
	}
	after, err := w.cpu(ctx)
	if err != nil {
		return r, err
	}
	if own && w.o.Profiles != "" {
		if err := w.keepProfiles(ctx, &t); err != nil {
			return r, err
		}
	}
	r, err = parse(client.Output(), t.latency)
	r.cpu = after - before
	return r, err
}

// cpu is the CPU time used in both guests, in seconds.
func (w *bench) cpu(ctx context.Context) (sum float64, err error) {
	for _, g := range []*lab.Guest{w.a, w.b} {
		text, err := g.Run(ctx, "head", "-n1", "/proc/stat")
		if err != nil {
			return 0, err
		}
		f := strings.Fields(text)
		if len(f) < 8 {
			return 0, fmt.Errorf("/proc/stat: %q", text)
		}
		for i, s := range f[1:8] { // user nice system idle iowait irq softirq
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				return 0, err
			}
			if i != 3 && i != 4 {
				sum += v / 100
			}
		}
	}
	return sum, nil
}

// parse reads the table of perftest: the line after the one that begins with #bytes.
func parse(text string, latency bool) (r result, err error) {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "#bytes") })
	if i < 0 || i+1 >= len(lines) {
		return r, fmt.Errorf("no table in %q", text)
	}
	f := strings.Fields(lines[i+1])
	at := func(k int) float64 {
		if k >= len(f) {
			err = fmt.Errorf("no column %d in %q", k, lines[i+1])
			return 0
		}
		v, perr := strconv.ParseFloat(f[k], 64)
		if perr != nil {
			err = perr
		}
		return v
	}
	if latency { // #bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%
		r.value, r.p99 = at(4), at(7)
	} else { // #bytes #iterations BW_peak BW_average MsgRate; MiB/s
		r.value = at(3) * (1 << 20) / mega
	}
	return r, err
}
