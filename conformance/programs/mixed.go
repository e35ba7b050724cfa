package programs

import "strings"

// mixedCases have a program on one side, and this project's stand-in for it on the other.
func mixedCases() []Case {
	var all []Case
	add := func(c Case) {
		c.Group = groupMixed
		own := func(argv []string) []string {
			name := strings.TrimPrefix(strings.TrimPrefix(argv[0], "ibv_"), "ib_")
			return append([]string{ownProgram, name}, argv[1:]...)
		}
		a, b := c, c
		a.Server, b.Client = own(c.Server), own(c.Client)
		a.Label, b.Label = strings.TrimSpace(c.Label+", roce serves"), strings.TrimSpace(c.Label+", roce asks")
		a.Label, b.Label = strings.TrimPrefix(a.Label, ", "), strings.TrimPrefix(b.Label, ", ")
		if a.Ready != "" {
			a.Ready = "listening on " // of the tools
		}
		all = append(all, a, b)
	}
	pick := func(from []Case, program string, labels ...string) {
		for _, c := range from {
			for _, l := range labels {
				if c.Program == program && c.Label == l {
					c.OneAddress, c.Quick = false, c.Quick && program == "ib_write_bw" && l == ""
					c.Check = clientOf(c.Check)
					add(c)
				}
			}
		}
	}
	perf, verbs, cm := perftestCases(), verbsCases(), cmCases()
	for _, t := range []string{"ib_write_bw", "ib_read_bw", "ib_send_bw"} {
		pick(perf, t, "", "-b", "-q 4 -b", "-R", "-a -n 20")
	}
	pick(perf, "ib_send_bw", "-c UD -s 2048")
	pick(perf, "ib_atomic_bw", "-A FETCH_AND_ADD", "-A CMP_AND_SWAP")
	for _, t := range []string{"ib_write_lat", "ib_read_lat", "ib_send_lat"} {
		pick(perf, t, "", "-R")
	}
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		pick(verbs, "ibv_"+kind+"_pingpong", "-c", "-e -c")
	}
	pick(cm, "rping", "-S 4096 -C 20 -v -V")
	pick(cm, "ucmatose", "-c 5 -S 6000")
	pick(cm, "udaddy", "-c 3 -S 1000")
	pick(cm, "rdma_client", "")
	pick(cm, "rstream", "-S 100 -C 500 -T v", "-S 300000 -C 10 -T v")
	pick(cm, "riostream", "-S 3000 -C 50 -I 4 -T v")
	return all
}

// clientOf leaves the server's output out: that of a stand-in is its own.
func clientOf(check func(string, string) error) func(string, string) error {
	if check == nil {
		return nil
	}
	return func(_, client string) error { return check(client, client) }
}
