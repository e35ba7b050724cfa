package suites

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// perftest is every option that perftest's programs list, one at a time, each with values that make
// sense.
func perftest() Suite {
	return Suite{
		Name: "perftest",
		About: "Every option that each program of perftest lists by `--help`, one at a time. A test that is skipped was refused with that reason. " +
			"Of `--ipv6`, which looks for a GID of IPv6, the devices on goroce are at IPv6 addresses: one there has one GID",
		Package: "perftest", Version: "25.01.0+0.80-1", Release: "trixie", Share: 40,
		Packages: []string{"perftest", "librdmacm1", "ibverbs-providers", "coreutils"},
		Run: func(ctx context.Context, t *Turn) error {
			return runPerftest(ctx, t, perftestJobs, t.newLibraryBench)
		},
		RunInGuest: inGuest(func(ctx context.Context, t *Turn, open func() (bench, error)) error {
			return runPerftest(ctx, t, 1, open)
		}),
	}
}

var perftestPrograms = []string{
	"ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw",
	"ib_atomic_lat",
}

// perftestValues are what an option that takes one is given, where it is not 1, and what others
// need with them. The first word is the option's long name. An option with no values here and none
// in the help is given as it is.
var perftestValues = map[string][]string{
	"atomic_type": {"CMP_AND_SWAP", "FETCH_AND_ADD"},
	"connection":  {"RC", "UC", "UD", "XRC", "DC", "SRD"},
	"ib-dev":      {"goroce0", "nosuch0"}, "ib-port": {"1", "2"},
	"duration": {"1"}, "all": {"-n 10"}, "aes_block_size": {"512"}, "vector": {"0 -e"}, "margin": {"0 -D 1"},
	"inline_size": {"0", "64"}, "post_list": {"16 -s 64 -t 128 -n 1600"}, "recv_post_list": {"8 -r 64 -n 800"},
	"hop_limit": {"64"}, "mtu": {"256", "512", "1024", "2048", "4096", "9000"},
	"MGID": {"0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3 -c UD -g"}, "iters": {"5", "1000"}, "outs": {"1", "16"},
	"port": {"19001"}, "qp": {"1", "8"}, "cq-mod": {"1", "50"}, "rx-depth": {"16", "1024"},
	"size": {"1", "4096", "65536", "8388608 -n 20"}, "sl": {"0", "3"}, "tx-depth": {"16", "512"}, "tos": {"32"},
	"qp-timeout": {"0", "14", "18"}, "limit_bw": {"0.01 -D 1", "100000 -D 1"},
	"limit_msgrate": {"0.0001 -D 1", "1000 -D 1"}, "report-counters": {"hw_counters/out_of_buffer"},
	"gid-index": {"0", "1", "9"}, "out_json_file": {"/tmp/out.json --out_json"},
	"congest_type": {"DCQCN"}, "dlid": {"1"}, "force-link": {"ethernet", "IB"}, "bind_source_ip": {"LOCAL"},
	"latency_gap": {"10"}, "mmap": {"/tmp/nosuch"}, "mmap-offset": {"0"},
	"output": {"bandwidth", "message_rate", "latency"}, "payload_file_path": {"/etc/payload"},
	"pkey_index": {"0", "1"}, "retry_count": {"7"}, "tclass": {"32"}, "flow_label": {"1,2"}, "wait_destroy": {"1"},
	"burst_size": {"10 --rate_limit=1 --rate_limit_type=SW"}, "typical_pkt_size": {"64"},
	"rate_limit": {"1 --rate_limit_type=SW"}, "rate_units": {"g --rate_limit=1 --rate_limit_type=SW"},
	"rate_limit_type": {"SW --rate_limit=1", "HW --rate_limit=1", "PP --rate_limit=1"},
	"log_dci_streams": {"1"}, "log_active_dci_streams": {"1"}, "dualport": {""}, "mcg": {"-c UD"},
	"report-both": {"-b"}, "report-per-port": {"-O"}, "use-srq": {"", "-q 4"}, "ipv6-addr": {""},
	"mr_per_qp": {"-q 2"}, "connectionless": {"-c UD"}, "unsolicited_write": {"--write_with_imm"},
}

// perftestV6 is the option for which a device needs an IPv6 address.
const perftestV6 = "--ipv6"

// perftestTime is the limit for one combination, which takes two seconds on a machine with nothing
// else to do.
const perftestTime = 90 * time.Second

// perftestAllTime is that for 23 sizes up to 8 MiB.
const perftestAllTime = 10 * time.Minute

// perftestJobs is how many combinations run side by side.
const perftestJobs = 3

// perftestOption is a line of the help: its long name, and whether it takes a value.
var perftestOption = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([A-Za-z][\w-]*)(=)?`)

// silent are options with which there is no table of results.
var silent = []string{"help", "version", "out_json", "out_json_file", "output", "run_infinitely"}

// combination is one row.
type combination struct {
	program, option string
	args            []string
}

func (c combination) name() string {
	return strings.TrimSpace(c.program + ": " + strings.Join(c.args, " "))
}

// combinations makes the rows of a program from its help.
func combinations(program, help string) (all []combination) {
	seen := map[string]bool{}
	for _, m := range perftestOption.FindAllStringSubmatch(help, -1) {
		option := m[1]
		if seen[option] {
			continue
		}
		seen[option] = true
		values := perftestValues[option]
		if values == nil {
			values = []string{map[bool]string{true: "1", false: ""}[m[2] != ""]}
		}
		for _, v := range values {
			arg := "--" + option
			if v != "" && v[0] != '-' {
				arg += "="
				if m[2] == "" && !perftestTakes[option] {
					arg = strings.TrimSuffix(arg, "=") + " "
				}
			} else if v != "" {
				arg += " "
			}
			all = append(all, combination{program, option, strings.Fields(arg + v)})
		}
	}
	return all
}

// perftestTakes are options that take a value, which the help does not show behind "=".
var perftestTakes = map[string]bool{
	"cq-mod": true, "duration": true, "margin": true, "dlid": true, "post_list": true, "recv_post_list": true,
}

// runPerftest runs the combinations, some side by side, each on a bench of its own.
func runPerftest(ctx context.Context, t *Turn, jobs int, open func() (bench, error)) error {
	var all []combination
	for _, program := range perftestPrograms {
		on, err := open()
		if err != nil {
			return err
		}
		p, err := on.start(ctx, 0, program, "--help")
		if err != nil {
			return errors.Join(err, on.Close())
		}
		_ = p.Wait() // some versions end with 1
		of := combinations(program, p.Output())
		if err := on.Close(); err != nil {
			return err
		}
		if len(of) == 0 {
			return fmt.Errorf("%s --help lists no options: %s", program, oneLine(p.Output()))
		}
		all = append(all, of...)
	}
	all = slices.DeleteFunc(all, func(c combination) bool { return !t.asked(c.name()) })
	t.Logf("%d combinations", len(all))
	queue := make(chan combination)
	errs := make([]error, jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range errs {
		wg.Go(func() {
			for c := range queue {
				r, err := combine(ctx, c, open)
				if errs[i] = errors.Join(errs[i], err); err == nil && ctx.Err() == nil {
					mu.Lock()
					t.Report(r)
					mu.Unlock()
				}
			}
		})
	}
	for _, c := range all {
		if ctx.Err() != nil {
			break
		}
		queue <- c
	}
	close(queue)
	wg.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// combine runs one combination: a server and a client.
func combine(ctx context.Context, c combination, open func() (bench, error)) (Result, error) {
	on, err := open()
	if err != nil {
		return Result{}, err
	}
	defer on.Close()
	limit := perftestTime
	if c.option == "all" {
		limit = perftestAllTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// An ACK timeout of a second: see conformance/programs.
	argv := []string{c.program}
	if c.option != "CPU-freq" { // which is the same
		argv = append(argv, "-F")
	}
	if c.option != "qp-timeout" {
		argv = append(argv, "-u", "18")
	}
	joined := " " + strings.Join(c.args, " ") + " "
	if !strings.Contains(joined, " -n ") && !strings.Contains(joined, " -D ") &&
		!slices.Contains([]string{"iters", "duration", "run_infinitely"}, c.option) {
		argv = append(argv, "-n", "200")
	}
	run := func(end int, more ...string) (process, error) {
		all := append(slices.Clone(argv), c.args...)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "LOCAL", on.addr(end).String())
		}
		return on.start(ctx, end, append(all, more...)...)
	}
	server, err := run(0)
	if err != nil {
		return Result{}, err
	}
	defer server.Kill()
	r := Result{Test: c.name()}
	port := 18515
	if c.option == "port" {
		port = 19001
	}
	if strings.Contains(joined, "--rdma_cm ") || strings.Contains(joined, "--comm_rdma_cm ") {
		port = byCM
	}
	if err := on.listening(ctx, server, port); err != nil {
		r.Outcome, r.Detail = verdict(c, server, nil)
		return r, nil
	}
	client, err := run(1, on.addr(0).String())
	if err != nil {
		return Result{}, err
	}
	defer client.Kill()
	if c.option == "run_infinitely" {
		size := "\n 65536 "
		if strings.Contains(c.program, "atomic") {
			size = "\n 8 "
		}
		if err := client.WaitOutput(ctx, size); err == nil {
			r.Outcome = Pass
			return r, nil
		}
	}
	select {
	case <-client.Done():
	case <-ctx.Done():
		r.Outcome, r.Detail = Fail, "it does not end: "+gist(client.Output())
		return r, nil
	}
	select {
	case <-server.Done():
	case <-time.After(partingTime):
	}
	r.Outcome, r.Detail = verdict(c, server, client)
	return r, nil
}

// partingTime is how long a server may run after its client.
const partingTime = 20 * time.Second

// wrong is what no program prints when it rightly refuses.
var wrong = regexp.MustCompile(`Completion with error|Failed status|mismatch|Segmentation|fatal error|panic|buffer overflow|stack smashing|double free`)

// alone is what a program prints that is asked for its help or version.
var alone = regexp.MustCompile(`Usage:|Version: `)

// results are a line of figures.
var results = regexp.MustCompile(`(?m)^[ \t]*\d+[ \t]+\d+([ \t]+-?([\d.]+|nan))+[ \t]*$`)

// verdict says what two programs have come to, of which the client may not have run.
func verdict(c combination, server, client process) (Outcome, string) {
	said := ""
	ok := true
	if client == nil && slices.Contains([]string{"help", "version"}, c.option) && alone.MatchString(server.Output()) {
		return Pass, "" // some versions end with 1
	}
	for _, p := range []process{client, server} {
		if p == nil {
			continue
		}
		said += p.Output()
		select {
		case <-p.Done():
		default:
			if !ok { // the client has refused, and its server waits for another one
				continue
			}
			return Fail, "it does not end: " + gist(p.Output())
		}
		err := p.Wait()
		if s := killedBy(err); s != 0 {
			return Fail, fmt.Sprintf("signal %v: %s", s, gist(p.Output()))
		}
		ok = ok && err == nil
	}
	if wrong.MatchString(said) {
		return Fail, gist(said)
	}
	if !ok {
		return Skip, gist(said)
	}
	if client != nil && !slices.Contains(silent, c.option) && !results.MatchString(client.Output()) {
		return Fail, "no results: " + gist(said)
	}
	return Pass, ""
}

// gist is what a program has said beside its tables.
func gist(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "***") ||
			strings.HasPrefix(line, "* Waiting") || strings.HasPrefix(line, "goroce: ") ||
			chatter.MatchString(line) || slices.Contains(lines, line) {
			continue
		}
		lines = append(lines, line)
	}
	return oneLine(qpNumber.ReplaceAllString(strings.Join(lines, "; "), "QP"))
}

// qpNumber is another one in each run.
var qpNumber = regexp.MustCompile(`\bQP \d+`)

// chatter are lines of perftest's about how it runs.
var chatter = regexp.MustCompile(`^(Dual-port|Number of qps|Connection type|PCIe relax|ibv_wr|TX depth|RX depth|CQ Moderation|Mtu|Link type|GID index|Max inline|rdma_cm|Data ex|Device|Transport|Using SRQ +:|Outstand|local address|remote address|GID:|#bytes|WARNING: BW peak|Atomic|Lock-free|Mcast|MGID)`)
