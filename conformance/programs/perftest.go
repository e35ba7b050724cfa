package programs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// perftestPort is where perftest and the pingpongs listen.
const perftestPort = 18515

// perftestCases are the programs of perftest, in all of their ways.
func perftestCases() []Case {
	var all []Case
	add := func(program, args string, more ...func(*Case)) {
		c := Case{
			Group: groupPerftest, Program: "ib_" + program, Label: args, Port: perftestPort, OneAddress: args == "",
			Check: checkPerftest(program, args),
		}
		// An ACK timeout of a second: on a machine with more to do than processors, a program may
		// not run for longer than eight times the 67 ms that perftest has for it.
		argv := append([]string{c.Program, "-F", "-u", "18"}, strings.Fields(args)...)
		if !strings.Contains(args, "-n ") && !strings.Contains(args, "-D ") {
			argv = append(argv, "-n", "500")
		}
		c.Server, c.Client = argv, append(argv[:len(argv):len(argv)], "TCP")
		if strings.Contains(args, "-R") || strings.Contains(args, "-z") {
			c.Port, c.Ready = 0, listeningCM
		}
		if strings.Contains(args, "-a ") { // up to 8 MiB each
			c.Limit = longCaseTime
		}
		for _, m := range more {
			m(&c)
		}
		all = append(all, c)
	}
	quick := func(c *Case) { c.Quick = true }
	for _, t := range []string{"write_bw", "read_bw", "send_bw"} {
		add(t, "", quick)
		add(t, "-a -n 20")
		add(t, "-b")
		if t != "write_bw" { // where it knows no -e
			add(t, "-e", quick)
			add(t, "-b -e -s 4096")
		}
		add(t, "-q 4 -b")
		add(t, "-l 16 -t 128 -s 64 -n 1600", quick)
		add(t, "-Q 1 -s 64")
		add(t, "-D 1", quick)
		add(t, "-s 1 -n 5000")
		add(t, "-s 8388608 -n 20")
		add(t, "-m 1024")
		add(t, "-R", quick)
		add(t, "-R -q 4 -b")
		add(t, "-z")
		add(t, "--mr_per_qp -q 2")
		add(t, "--odp", refused("failed to create mr"))
		if t != "read_bw" {
			add(t, "-I 64 -s 64")
			add(t, "-c UC")
			if t == "write_bw" { // a SEND that finds no receive is lost, for which perftest waits for ever
				add(t, "-c UC -b -q 2")
			}
		}
		add(t, "-x 0")
		add(t, "--use_old_post_send", quick)
		add(t, "-c XRC", refused("Couldn't create XRC resources"))
	}
	add("send_bw", "-c UD -s 2048", quick)
	add("send_bw", "-c UD -b -q 2 -s 64")
	add("send_bw", "-c UD -a -n 50")
	add("send_bw", "-c UD -R -s 1024")
	add("send_bw", "-c UD -I 64 -s 64 -l 8 -t 128 -n 800")
	add("send_bw", "--use-srq -q 4", quick)
	add("send_bw", "-r 16 -e")
	add("send_bw", "--recv_post_list=8 -r 64 -n 800")
	for _, kind := range []string{"FETCH_AND_ADD", "CMP_AND_SWAP"} {
		add("atomic_bw", "-A "+kind, quick)
		add("atomic_bw", "-A "+kind+" -b -q 2")
	}
	add("atomic_bw", "-e")
	add("atomic_bw", "-R")
	add("atomic_bw", "-o 4 -D 1")
	for _, t := range []string{"write_lat", "read_lat", "send_lat"} {
		add(t, "", quick)
		add(t, "-a -n 50")
		add(t, "-s 65536")
		add(t, "-D 1")
		add(t, "-R", quick)
		add(t, "-U -n 100", func(c *Case) { c.Check = has("#, usec", "\n99, ") })
		add(t, "--use_old_post_send")
		if t != "write_lat" {
			add(t, "-e", quick)
		}
		if t != "read_lat" {
			add(t, "-I 32 -s 32", quick)
			add(t, "-I 0 -s 32")
			add(t, "-c UC")
		}
	}
	add("send_lat", "-c UD -s 1024", quick)
	add("send_lat", "-c UD -e -s 64")
	add("send_lat", "-c UD -R -s 64")
	add("send_lat", "--use-srq")
	add("atomic_lat", "-A FETCH_AND_ADD")
	add("atomic_lat", "-A CMP_AND_SWAP")
	add("atomic_lat", "-e")
	add("atomic_lat", "-R")
	return all
}

// refused marks a case of what cannot work, in words that the program has for it.
func refused(says string) func(*Case) {
	return func(c *Case) { c.Refused, c.Check = says, nil }
}

// allSizes are the results of -a: 2 to 2^23; UD's end with the path MTU.
var allSizes = map[bool]int{false: 23, true: 12}

// figures are a line of results. A deviation may be "-nan", by rounding.
var figures = regexp.MustCompile(`(?m)^[ \t]*\d+[ \t]+\d+([ \t]+-?([\d.]+|nan))+[ \t]*$`)

// checkPerftest wants the table of results: as many lines as sizes, with a rate or a time above 0.
// Of a bandwidth test only the client has it in each way.
func checkPerftest(program, args string) func(server, client string) error {
	want := 1
	if strings.Contains(args, "-a ") {
		want = allSizes[strings.Contains(args, "UD")]
	}
	return func(_, client string) error {
		lines := figures.FindAllString(client, -1)
		if len(lines) != want {
			return fmt.Errorf("%d lines of results, and not %d", len(lines), want)
		}
		for _, line := range lines {
			f := strings.Fields(line)
			// #bytes #iterations BW-peak BW-average MsgRate; or t_min t_max t_typical t_avg ...; of
			// -D average times only. On a busy machine a bandwidth may be too small to be shown,
			// and the rate is not.
			results := f[2:]
			if strings.HasSuffix(program, "_lat") {
				results = f[2:3]
			}
			best := 0.0
			for _, r := range results {
				v, err := strconv.ParseFloat(r, 64)
				if err != nil {
					return fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
				}
				best = max(best, v)
			}
			if best <= 0 {
				return fmt.Errorf("a result of 0 in %q", strings.TrimSpace(line))
			}
		}
		return nil
	}
}
