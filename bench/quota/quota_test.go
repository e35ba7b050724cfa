package quota

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The groups of both versions are found, in a container too, below that of the process before those
// at the top.
func TestParents(t *testing.T) {
	const (
		one = "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
			"32 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
		two = "24 23 0:22 / /sys/fs/cgroup/my\\040groups rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, x := range []struct {
		name, mounts, own string
		want              []parent
	}{
		{"version 1", one, "4:cpuset:/set\n3:cpu,cpuacct:/user/me\n",
			[]parent{{"/sys/fs/cgroup/cpu,cpuacct/user/me", 1}, {"/sys/fs/cgroup/cpu,cpuacct", 1}}},
		{"version 1, at the top", one, "3:cpu,cpuacct:/\n", []parent{{"/sys/fs/cgroup/cpu,cpuacct", 1}}},
		{"version 2, a blank in the path", two, "0::/a:b\n",
			[]parent{{"/sys/fs/cgroup/my groups/a:b", 2}, {"/sys/fs/cgroup/my groups", 2}}},
		{"version 2, above the namespace", two, "0::/../other\n", []parent{{"/sys/fs/cgroup/my groups", 2}}},
		{"both", two + one, "3:cpu,cpuacct:/\n0::/\n",
			[]parent{{"/sys/fs/cgroup/cpu,cpuacct", 1}, {"/sys/fs/cgroup/my groups", 2}}},
		{
			"a container of version 1", "31 30 0:27 /docker/c /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
			"3:cpu:/docker/c/below\n", []parent{{"/sys/fs/cgroup/cpu/below", 1}, {"/sys/fs/cgroup/cpu", 1}},
		},
		{"neither", "32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\nnonsense\n1 2 3 / - cgroup\n",
			"junk\n", nil},
	} {
		require.Equal(t, x.want, parents([]byte(x.mounts), []byte(x.own)), x.name)
	}
}

func TestLimits(t *testing.T) {
	require.Equal(t, []limit{{"cpu.max", "20000 100000"}}, limits(2, 0.2))
	require.Equal(t, []limit{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "50000"}}, limits(1, 0.5))
}

// Version 2 gives a group below only the controllers that are enabled, and New enables what is
// there.
func TestEnable(t *testing.T) {
	write := func(dir, name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	enabled := func(dir string) string {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		require.NoError(t, err)
		return string(b)
	}
	for _, x := range []struct{ subtree, controllers, want, err string }{
		{"cpu memory\n", "cpu memory\n", "cpu memory\n", ""},
		{"memory\n", "cpuset cpu memory\n", "+cpu", ""},
		{"memory\n", "cpuset memory\n", "memory\n", "no CPU controller"},
	} {
		dir := t.TempDir()
		write(dir, "cgroup.subtree_control", x.subtree)
		write(dir, "cgroup.controllers", x.controllers)
		err := parent{dir, 2}.enable()
		if x.err != "" {
			require.ErrorContains(t, err, x.err)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, x.want, enabled(dir))
	}
	require.ErrorIs(t, parent{t.TempDir(), 2}.enable(), os.ErrNotExist, "no folder of version 2")
}

// A process that joins a group is in it, and the group goes when the process has gone.
func TestGroup(t *testing.T) {
	g, err := New("goroce-bench-test", 0.5)
	if err != nil {
		t.Skipf("needs root, and control groups: %v", err)
	}
	out, err := exec.Command("sh", "-c", `echo $$ > "$1"/cgroup.procs && cat /proc/self/cgroup`, "sh",
		g.Dir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "/"+filepath.Base(g.Dir())+"\n")
	_, err = New("goroce-bench-test", 0.5)
	require.Error(t, err, "the name is taken")
	require.NoError(t, g.Close())
	_, err = os.Stat(g.Dir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.False(t, strings.Contains(g.Dir(), ".."))
}
