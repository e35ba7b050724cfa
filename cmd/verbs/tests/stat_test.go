package tests

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/verbs/tests/cprog"
	"github.com/goroce/goroce/roce/stat"
)

// endpointsOf returns where a process tells of its devices.
func endpointsOf(t *testing.T, pid int) []stat.Endpoint {
	t.Helper()
	all, err := stat.Find()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e stat.Endpoint) bool { return e.PID != pid })
}

// A program whose environment "roce run --stat" has made tells of its devices while they are open,
// and others do not.
func TestStat(t *testing.T) {
	libs := libraries(t)
	exe := filepath.Join(t.TempDir(), "held")
	if b, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-o", exe, "held/held.c",
		"-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, b)
	}
	for name, want := range map[string]int{"GOROCE_STAT=1": 2, "GOROCE_STAT=0": 0, "GOROCE_STAT=": 0} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), cprog.Hangs)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libs, "GOROCE_ADDR=127.0.0.1,127.0.0.2", name)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			until := func(last string) (before []string) {
				for lines.Scan() {
					if lines.Text() == last {
						return before
					}
					before = append(before, lines.Text())
				}
				t.Fatalf("the program ended before it said %q: %v, %v", last, before, lines.Err())
				return nil
			}
			numbers := until("open")
			told := endpointsOf(t, cmd.Process.Pid)
			if len(told) != want {
				t.Errorf("%d devices are told of, not %d", len(told), want)
			}
			var seen, addrs []string
			for _, e := range told {
				p, err := e.Ask(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if p.PID != cmd.Process.Pid || p.Command != "held" || len(p.Devices) != 1 ||
					p.Devices[0].Link != "udp" {
					t.Fatalf("%+v", p)
				}
				d := p.Devices[0]
				addrs = append(addrs, d.GIDs...)
				for _, q := range d.QPs {
					if slices.Contains(numbers, fmt.Sprint(uint32(q.Number))) {
						seen = append(seen, q.Type+" "+q.State)
					}
				}
			}
			if want > 0 {
				slices.Sort(addrs)
				if got := strings.Join(addrs, " ") + ": " + strings.Join(seen, ", "); got !=
					"127.0.0.1 127.0.0.2: RC RESET, RC RESET" {
					t.Errorf("told of %s", got)
				}
			}
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			until("closed")
			if left := endpointsOf(t, cmd.Process.Pid); len(left) > 0 {
				t.Errorf("closed, and told of: %v", left)
			}
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
