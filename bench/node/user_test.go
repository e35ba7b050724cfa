package node

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// envPrint has TestUnprivileged print what it may do, as a node would start.
const envPrint = "GOROCE_BENCH_TEST_PRINT"

// A node that is to have no privileges has none, also when root starts it: else the figures for
// most users would be those of root.
func TestUnprivileged(t *testing.T) {
	if os.Getenv(envPrint) != "" {
		if err := drop(); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open("/proc/self/status")
		require.NoError(t, err)
		for s := bufio.NewScanner(f); s.Scan(); {
			if strings.HasPrefix(s.Text(), "Cap") {
				fmt.Println(s.Text())
			}
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestUnprivileged$")
	cmd.Env = append(os.Environ(), envPrint+"=1", EnvUnprivileged+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, set := range []string{"CapPrm", "CapEff"} {
		require.Contains(t, string(out), set+":\t0000000000000000")
	}
}
