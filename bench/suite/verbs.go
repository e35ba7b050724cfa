package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/conformance/programs"
)

const (
	// verbsBin is where "make build verbs" puts programs and libraries.
	verbsBin = "bin"
	// verbsTimeout makes QPs wait 1 s for an acknowledgement: a busy machine is no loss.
	verbsTimeout = "18"
	verbsPort    = 18515
	ucxPort      = 13337
	// verbsLimit bounds one run of a program.
	verbsLimit = time.Minute
)

// verbsNeeds are the files without which there is nothing to measure, and what makes them.
var verbsNeeds = []struct{ file, by string }{
	{"roce", "make build"}, {"verbs/libibverbs.so.1", "make verbs"}, {"verbs/libgoroce.so", "make verbs"},
	{"verbs/poll_cq", "make verbs"},
}

// verbs compares programs on the verbs libraries with the project's own tools, and UCX on them with
// UCX over TCP.
func (s *Suite) verbs() error {
	bin, err := filepath.Abs(verbsBin)
	if err != nil {
		return err
	}
	why := verbsMissing(bin)
	if why == "" && !s.net.Virtual() {
		why = "it needs network namespaces"
	}
	if why != "" {
		s.note("verbs: not measured: %s", why)
		return nil
	}
	net, err := programs.NewNet()
	if err != nil {
		return err
	}
	v := &verbsBench{Suite: s, net: net, bin: bin, link: s.o.Links[0]}
	return errors.Join(v.run(), net.Close())
}

// verbsMissing says what is not there that is needed.
func verbsMissing(bin string) string {
	for _, n := range verbsNeeds {
		if _, err := os.Stat(filepath.Join(bin, n.file)); err != nil {
			return fmt.Sprintf("%v: %q makes it", err, n.by)
		}
	}
	if _, err := exec.LookPath("ib_write_bw"); err != nil {
		return "perftest is not installed"
	}
	return ""
}

type verbsBench struct {
	*Suite
	net  *programs.Net
	bin  string
	link string
}

// comparison is a case, and the two things that it compares.
type comparison struct {
	c          report.Case
	x, unit    string
	ours, with func(context.Context) (float64, error)
}

func (v *verbsBench) run() error {
	all := v.perftest()
	if _, err := exec.LookPath("ucx_perftest"); err == nil {
		all = append(all, v.ucx()...)
	} else {
		v.note("verbs: UCX is not measured: ucx_perftest is not installed")
	}
	poll := report.Case{Item: "verbs", Name: report.VerbsPoll, Link: v.link}
	var errs error
	for range v.o.Rounds {
		if ns, err := v.poll(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", poll.Name, err))
		} else {
			poll.Add("time", "ns", ns)
		}
		for i := range all {
			if err := all[i].round(); err != nil { // other rounds, and other cases, may do
				errs = errors.Join(errs, fmt.Errorf("%s: %w", all[i].c.Name, err))
			}
		}
	}
	for _, x := range append(all, &comparison{c: poll}) {
		if len(x.c.Figures) > 0 {
			v.o.Logf("%-40s %.4g, %.4g, %.2f", x.c.Name, x.c.Figures[0].Median, x.c.Value("compared"), x.c.Value(x.x))
			v.r.Cases = append(v.r.Cases, x.c)
		}
	}
	return errs
}

// round measures both once.
func (x *comparison) round() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*verbsLimit)
	defer cancel()
	ours, err := x.ours(ctx)
	if err != nil {
		return fmt.Errorf("on the libraries: %w", err)
	}
	with, err := x.with(ctx)
	if err != nil {
		return err
	}
	x.c.Add("libraries", x.unit, ours)
	x.c.Add("compared", x.unit, with)
	x.c.Add(x.x, "", ours/with)
	return nil
}

func (v *verbsBench) perftest() []*comparison {
	var all []*comparison
	for _, p := range report.VerbsPairs() {
		args := append([]string{"-F", "-u", verbsTimeout}, strings.Fields(p.Args)...)
		opts := []string{"--link=" + v.link}
		if p.Latency {
			opts = append(opts, "--polling")
		}
		of := func(argv ...string) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				out, err := v.pair(ctx, opts, nil, verbsPort, append(argv, args...), append(argv, args...))
				if err != nil {
					return 0, err
				}
				return perftestValue(out, &p)
			}
		}
		all = append(all, &comparison{
			c: report.Case{Item: "verbs", Name: p.Name, Link: v.link, Op: p.Tool}, x: report.XOwn, unit: p.Unit(),
			ours: of("ib_" + p.Tool), with: of("roce", p.Tool),
		})
	}
	return all
}

// perftestValue returns the figure of a pair from perftest's table, whose columns are of an order
// that does not change.
func perftestValue(out string, p *report.VerbsPair) (float64, error) {
	// #bytes #iterations t_min t_max t_typical ..., or #bytes #iterations peak average message rate
	column, scale := 3, float64(1<<20)/1e6
	if p.Latency || p.Small {
		column, scale = 4, 1
	}
	_, table, ok := strings.Cut(out, "#bytes")
	lines := strings.Split(table, "\n")
	if !ok || len(lines) < 2 {
		return 0, fmt.Errorf("no table in %q", out)
	}
	return numberAt(lines[1], column, scale)
}

// numberAt returns a number in a line of columns.
func numberAt(line string, column int, scale float64) (float64, error) {
	f := strings.Fields(line)
	if column >= len(f) {
		return 0, fmt.Errorf("no column %d in %q", column, line)
	}
	x, err := strconv.ParseFloat(f[column], 64)
	if err == nil && x <= 0 {
		err = fmt.Errorf("nothing was measured: %q", line)
	}
	return x * scale, err
}

// ucxTests are what UCX is measured with.
var ucxTests = []struct {
	name, test string
	args       string
	latency    bool
}{
	{"UCX tag_lat, 8 B", "tag_lat", "-s 8 -n 5000", true},
	{"UCX tag_bw, 4 KiB", "tag_bw", "-s 4096 -n 20000", false},
	{"UCX tag_bw, 1 MiB", "tag_bw", "-s 1048576 -n 300 -w 20", false},
}

// ownSysfs runs a program with the sysfs of its network namespace, in which UCX looks for
// interfaces.
var ownSysfs = []string{"unshare", "--mount", "sh", "-c", `mount -t sysfs sysfs /sys && exec "$@"`, "sh"}

func (v *verbsBench) ucx() []*comparison {
	var all []*comparison
	for _, t := range ucxTests {
		args := append([]string{"ucx_perftest", "-t", t.test}, strings.Fields(t.args)...)
		of := func(argv []string, env ...string) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				out, err := v.pair(ctx, []string{"--link=" + v.link}, env, ucxPort, argv, argv)
				if err != nil {
					return 0, err
				}
				return ucxValue(out, t.latency)
			}
		}
		unit := "MB/s"
		if t.latency {
			unit = "us"
		}
		all = append(all, &comparison{
			c: report.Case{Item: "verbs", Name: t.name, Link: v.link, Op: t.test}, x: "x TCP", unit: unit,
			ours: of(args, "UCX_TLS=rc_v", "UCX_NET_DEVICES=goroce0:1"),
			with: of(append(slices.Clone(ownSysfs), args...), "UCX_TLS=tcp", "UCX_NET_DEVICES="+programs.Interface),
		})
	}
	return all
}

// ucxValue returns the overall figure from ucx_perftest's last line: iterations, latency (typical,
// average, overall), bandwidth (average, overall), message rate (average, overall).
func ucxValue(out string, latency bool) (float64, error) {
	_, line, ok := strings.Cut(out, "Final:")
	if !ok {
		return 0, fmt.Errorf("no result in %q", out)
	}
	line, _, _ = strings.Cut(line, "\n")
	if latency {
		return numberAt(line, 3, 1)
	}
	return numberAt(line, 5, float64(1<<20)/1e6)
}

// pair runs a server and a client and returns what the client has printed.
func (v *verbsBench) pair(ctx context.Context, opts, env []string, port int, server, client []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, verbsLimit)
	defer cancel()
	a, b := v.net.HostPlace(v.bin, 0, opts...), v.net.HostPlace(v.bin, 1, opts...)
	srv, err := b.Start(ctx, env, server...)
	if err != nil {
		return "", err
	}
	defer srv.Kill()
	if err := b.Listening(ctx, srv, port); err != nil {
		return "", fmt.Errorf("%s, server: %w: %s", strings.Join(server, " "), err, lastLine(srv.Output()))
	}
	c, err := a.Start(ctx, env, append(client, b.Addr4.String())...)
	if err != nil {
		return "", err
	}
	if err := c.Wait(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done in %v", verbsLimit)
		}
		return "", fmt.Errorf("%s: %w: %s", strings.Join(client, " "), err, lastLine(c.Output()))
	}
	return c.Output(), nil
}

// lastLine is the end of what a program has printed: where it says why it has ended.
func lastLine(out string) string {
	const most = 200
	out = strings.TrimSpace(out)
	out = strings.TrimSpace(out[strings.LastIndexByte(out, '\n')+1:])
	return out[:min(len(out), most)]
}

// poll measures an empty poll.
func (v *verbsBench) poll() (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verbsLimit)
	defer cancel()
	p, err := v.net.HostPlace(v.bin, 0, "--link="+v.link).Start(ctx, nil, filepath.Join(v.bin, "verbs", "poll_cq"))
	if err != nil {
		return 0, err
	}
	if err := p.Wait(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, lastLine(p.Output()))
	}
	return numberAt(p.Output(), 0, 1)
}
