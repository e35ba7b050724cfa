package programs

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	groups := map[string]int{}
	for _, c := range Cases(nil, false) {
		key := c.Group + " " + c.name()
		if c.Suites != nil {
			key += c.Suites[0]
		}
		require.False(t, seen[key], "twice: %s", key)
		seen[key] = true
		groups[c.Group]++
		require.Contains(t, Groups(), c.Group, key)
		require.NotEmpty(t, c.Client, key)
		if c.Server != nil {
			require.True(t, c.Port != 0 || c.Ready != "", "%s: nothing says when the client may start", key)
		}
		// What is run must be able to fail by more than its exit status.
		require.True(t, c.Check != nil || c.Refused != "" || c.While != nil, key)
	}
	for _, g := range Groups() {
		if g != groupPyverbs {
			require.NotZero(t, groups[g], g)
		}
	}
	// The programs that the issue names.
	for _, program := range []string{
		"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat", "ib_read_lat",
		"ib_send_lat", "ib_atomic_lat", "ibv_devinfo", "ibv_devices", "ibv_asyncwatch", "ibv_rc_pingpong",
		"ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "rping", "ucmatose", "udaddy", "mckey",
		"rstream", "riostream", "rdma_client", "rcopy", "cmtime", "fi_pingpong", "ucx_perftest", "ucx_info",
	} {
		require.True(t,
			slices.ContainsFunc(Cases(nil, false), func(c Case) bool { return c.Program == program }), program)
	}
}

// The short run has something of each group, and is short.
func TestQuickTable(t *testing.T) {
	all, quick := Cases(nil, false), Cases(nil, true)
	require.Less(t, len(quick), len(all)/3)
	for _, g := range Groups() {
		if g != groupPyverbs {
			require.NotEmpty(t, Cases([]string{g}, true), g)
		}
	}
}

// The shortest run has each of its cases once, and none of those that wait for what is lost.
func TestSmokeTable(t *testing.T) {
	var names []string
	for _, c := range Smoke() {
		names = append(names, c.name())
		require.Empty(t, c.Suites, c.name())
		require.Empty(t, c.Refused, c.name())
		for _, unsafe := range []string{"-c UC", "-c UD", "-R", "-D", "uc_pingpong", "ud_pingpong", "udaddy",
			"udpong", "mckey"} {
			require.NotContains(t, c.name(), unsafe)
		}
	}
	slices.Sort(names)
	require.Equal(t, slices.Sorted(slices.Values(smoke)), names)
}

const bandwidth = `---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              1003.00            1001.80		   0.016029
---------------------------------------------------------------------------------------
`

const latency = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       500          8.96           113.64       10.30    	       11.19       	5.45   		24.12   		113.64
`

func TestCheckPerftest(t *testing.T) {
	for _, x := range []struct {
		program, args, out, want string
	}{
		{"write_bw", "", bandwidth, ""},
		{"write_lat", "", latency, ""},
		{"send_lat", "", " 2       500          71.90          181081.40      711.78   	       3458.51     	-nan   		75314.79 		181081.40\n", ""},
		{"write_bw", "", "#bytes\n", "0 lines of results"},
		{"write_bw", "-a -n 20", strings.Repeat(" 2 20 1.0 0.5 0.1\n", 23), ""},
		{"write_bw", "-a -n 20", bandwidth, "1 lines of results, and not 23"},
		{"send_bw", "-c UD -a -n 20", bandwidth, "1 lines of results, and not 12"},
		{"write_bw", "", " 65536      500              0.00            0.00		   0.000000\n", "a result of 0 in"},
		{"write_bw", "", " 2      20              0.00            0.00		   0.000100\n", ""},
		{"write_lat", "", " 2      20     0.00   5.00  1.00 1.00 0.10 2.00 3.00\n", "a result of 0 in"},
		{"write_bw", "-D 1", " 65536      5000              0.00            900.00		   0.010000\n", ""},
	} {
		err := checkPerftest(x.program, x.args)("", x.out)
		if x.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, x.want)
		}
	}
}

// What the machine does not allow is told from what is wrong with the run.
func TestAllowed(t *testing.T) {
	missing := fmt.Errorf("roce: %w", fs.ErrNotExist)
	require.Equal(t, missing, Allowed(missing))
	var lacking *NotAllowed
	require.ErrorAs(t, Allowed(fmt.Errorf("mount: %w", syscall.EPERM)), &lacking)
	require.ErrorIs(t, lacking, syscall.EPERM)
}
