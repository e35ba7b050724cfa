package suite

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/goroce/goroce/bench/report"
)

// enginePackage is where the benchmarks of the engine alone are.
const enginePackage = "github.com/goroce/goroce/transport"

// engine is item 5: the benchmarks of package transport, by the go command.
func (s *Suite) engine() error {
	n := "100000x" // with a time, starting and stopping the clock would take most of it
	if s.o.Full {
		n = "1000000x"
	}
	// In ManyQPs each of the queue pairs has its turn ten times at least, after the first
	// of which its queues have their size.
	return s.goBench("^Benchmark(Packet|Stream|Window|ManyQPs)$", n)
}

func (s *Suite) goBench(bench, time string) error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", bench, "-benchmem", "-benchtime", time, "-count", strconv.Itoa(s.o.Rounds), enginePackage)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	cases := parseBench(out)
	if len(cases) == 0 {
		return fmt.Errorf("%s printed no benchmark: %s", strings.Join(cmd.Args, " "), out)
	}
	for _, c := range cases {
		s.o.Logf("%-60s %.0f ns, %.0f allocs", c.Name, c.Value("time"), c.Value("allocs"))
	}
	s.r.Cases = append(s.r.Cases, cases...)
	return nil
}

// parseBench reads what go test prints: name, iterations, then values with units.
func parseBench(out []byte) []report.Case {
	names := map[string][2]string{
		"ns/op": {"time", "ns/op"}, "B/op": {"bytes", "B/op"}, "allocs/op": {"allocs", "allocs/op"},
		"MB/s": {"goodput", "MB/s"}, "ns/packet": {"packet", "ns/packet"},
	}
	var cases []report.Case
	at := map[string]int{}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil { // GOMAXPROCS
				name = name[:i]
			}
		}
		i, ok := at[name]
		if !ok {
			i = len(cases)
			at[name] = i
			cases = append(cases, report.Case{Item: "engine", Name: name})
		}
		for k := 2; k+1 < len(f); k += 2 {
			v, err := strconv.ParseFloat(f[k], 64)
			if n, ok := names[f[k+1]]; ok && err == nil {
				cases[i].Add(n[0], n[1], v)
			}
		}
	}
	return cases
}
