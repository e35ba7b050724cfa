package suites

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

// valkey is its test of RDMA, which finds the device below /sys/class/infiniband.
func valkey() Suite {
	return Suite{
		Name: "valkey",
		About: "valkey's `runtest-rdma`, as its own CI runs it: a server and a client of four threads over RDMA-CM, with a BGSAVE meanwhile. It is one test. " +
			"valkey's other tests have no RDMA",
		Package: "valkey", Version: "9.1.2-1", Release: "sid",
		Needs: []lab.Need{{What: "python3", Package: "python3-minimal"},
			{What: "/usr/lib/python3/dist-packages/netifaces-0.11.0.egg-info", Package: "python3-netifaces"}},
		Build: `make -j2 BUILD_RDMA=yes MALLOC=libc
make -C tests/rdma
`,
		Run: runValkey,
	}
}

// valkeyLimit is for all of it: the script gives its client 60 s.
const valkeyLimit = 3 * time.Minute

func runValkey(ctx context.Context, t *Turn) error {
	const name = "runtest-rdma"
	if !strings.Contains(name, t.Only) {
		return nil
	}
	var said strings.Builder
	err := t.Site.Run(ctx, 0, Command{
		Dir: t.Dir, Argv: []string{"sh", "./" + name}, Limit: valkeyLimit,
		OnLine: func(line string) { said.WriteString(line) },
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := Result{Test: name}
	r.Outcome, r.Detail = valkeyVerdict(said.String(), err)
	t.Report(r)
	return nil
}

// valkeyVerdict says what it has come to. The script ends with 0 in any case.
func valkeyVerdict(said string, end error) (Outcome, string) {
	var wrong strings.Builder
	for line := range strings.Lines(said) {
		ok := strings.HasSuffix(strings.TrimSpace(line), "[OK]")
		if ok && strings.HasPrefix(line, "Valkey Over RDMA test over ") && end == nil {
			return Pass, ""
		}
		if !ok {
			wrong.WriteString(line)
		}
	}
	return Fail, oneLine(fmt.Sprintf("%v: %s", end, wrong.String()))
}
