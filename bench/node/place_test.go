package node

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/goroce/goroce/bench/quota"
	"github.com/stretchr/testify/require"
)

func TestCPUSet(t *testing.T) {
	set, err := cpuSet("0,3,70")
	require.NoError(t, err)
	require.Equal(t, 3, set.Count())
	require.True(t, set.IsSet(0) && set.IsSet(3) && set.IsSet(70))
	for _, bad := range []string{"", "1,", "-1", "a", "65535", "1-2"} {
		_, err := cpuSet(bad)
		require.Error(t, err, "%q", bad)
	}
	require.Empty(t, (&Place{}).env())
}

// A node has the CPUs, the processors and the control group of its place, and passes none of it on.
func TestPlace(t *testing.T) {
	if os.Getenv(envPrint) != "" {
		require.NoError(t, settle())
		cpus, err := CPUs()
		require.NoError(t, err)
		groups, err := os.ReadFile("/proc/self/cgroup")
		require.NoError(t, err)
		fmt.Printf("CPUs %v, processors %d, %q left\n%s", cpus, runtime.GOMAXPROCS(0),
			os.Getenv(envCPUs)+os.Getenv(envGroup), groups)
		return
	}
	cpus, err := CPUs()
	require.NoError(t, err)
	last := cpus[len(cpus)-1:]
	run := func(p Place) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPlace$")
		cmd.Env = slices.Concat(os.Environ(), []string{envPrint + "=1"}, p.env())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(Place{CPUs: last, Procs: 3})
	require.NoError(t, err, out)
	require.Contains(t, out, fmt.Sprintf("CPUs %v, processors 3, \"\" left\n", last))
	out, err = run(Place{Group: t.TempDir() + "/none"})
	require.Error(t, err, out)
	require.Contains(t, out, envGroup)

	g, err := quota.New("goroce-bench-test-place", 1)
	if err != nil {
		t.Skipf("the rest needs root, and control groups: %v", err)
	}
	out, err = run(Place{CPUs: cpus, Group: g.Dir()})
	require.NoError(t, err, out)
	require.Contains(t, out, "/goroce-bench-test-place\n")
	require.Contains(t, out, fmt.Sprintf("CPUs %v,", cpus))
	require.NoError(t, g.Close())
}
