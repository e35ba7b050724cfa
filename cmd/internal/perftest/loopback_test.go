package perftest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// runJSON runs a test against itself and returns both reports.
func runJSON(t *testing.T, test Test, server, client *toolcheck.Side) (onServer, onClient jsonReport) {
	t.Helper()
	for _, side := range []*toolcheck.Side{server, client} {
		side.Args = append(slices.Clone(side.Args), append(toolcheck.Patient, "--json")...)
	}
	toolcheck.Run(t, Command(test), server, client)
	require.NoError(t, client.Err, "client; stderr: %s; server: %v", &client.Stderr, server.Err)
	require.NoError(t, server.Err, "server; stderr: %s", &server.Stderr)
	require.NoError(t, json.Unmarshal(server.Stdout.Bytes(), &onServer))
	require.NoError(t, json.Unmarshal(client.Stdout.Bytes(), &onClient))
	return onServer, onClient
}

// field returns a figure of each row.
func field(r jsonReport, name string) []float64 {
	var out []float64
	for _, row := range r.Results {
		out = append(out, row.(map[string]any)[name].(float64))
	}
	return out
}

func TestLoopback(t *testing.T) {
	all := []float64{}
	for n := 2; n <= maxSizeAll; n *= 2 {
		all = append(all, float64(n))
	}
	for _, c := range []struct {
		test  Test
		args  string
		sizes []float64 // nil: one, of any size
		// rows that the server reports; -1: as the client
		serverRows int
	}{
		{test: writeBW, args: "-n 50", serverRows: 1},
		{test: writeBW, args: "-n 50 -s 8 -Q 7", serverRows: 1},
		{test: writeBW, args: "-n 20 -a -t 4", sizes: all, serverRows: 1},
		{test: writeBW, args: "-n 50 -b -s 4K", serverRows: 1},
		{test: writeBW, args: "-n 20 -q 4 -s 100", serverRows: 1},
		{test: writeBW, args: "-n 20 -q 4 -b -s 100 --mr_per_qp", serverRows: 1},
		{test: writeBW, args: "-n 40 -l 4 -s 64 -m 256", serverRows: 1},
		{test: writeBW, args: "-n 40 -c UC -s 2000", serverRows: 1},
		{test: writeBW, args: "-n 40 -I 64 -s 64 --perform_warm_up", serverRows: 1},
		{test: writeBW, args: "-n 40 --dont_xchg_versions --no-gso --no-gro", serverRows: 1},
		{test: writeBW, args: "-n 30 -s 64K --polling", serverRows: 1},
		{test: Test{Verb: Read}, args: "-n 50", serverRows: 1},
		{test: Test{Verb: Read}, args: "-n 50 -o 1 -b -q 2", serverRows: 1},
		{test: Test{Verb: Read}, args: "-n 5 -a -b -t 2", sizes: all, serverRows: 23},
		{test: Test{Verb: Read}, args: "-n 30 -s 5000 -e --polling", serverRows: 1},
		{test: atomicBW, args: "-n 50", serverRows: 1},
		{test: atomicBW, args: "-n 50 -A CMP_AND_SWAP -b -a", serverRows: 1},
		{test: sendBW, args: "-n 50", serverRows: 1},
		{test: sendBW, args: "-n 50 -b -q 4 -s 1000", serverRows: 1},
		{test: sendBW, args: "-n 30 -q 2 --use-srq -r 20", serverRows: 1},
		{test: sendBW, args: "-n 5 -a -t 2", sizes: all, serverRows: 23},
		{test: sendBW, args: "-n 30 -c UD -s 256 -t 8", serverRows: 1},
		{test: sendBW, args: "-n 30 -c UD -a -t 8 -m 1024",
			sizes: []float64{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, serverRows: 10},
		{test: sendBW, args: "-n 30 -c UC -t 2 -s 6000", serverRows: 1},
		{test: sendBW, args: "-n 30 -e -s 64", serverRows: 1},
		{test: sendBW, args: "-n 30 -b -s 64 --polling", serverRows: 1},
		{test: sendLat, args: "-n 50", serverRows: 1},
		{test: sendLat, args: "-n 20 -c UD -e", serverRows: 1},
		{test: sendLat, args: "-n 20 -c UC -s 3000", serverRows: 1},
		{test: sendLat, args: "-n 5 -a", sizes: all, serverRows: 23},
		{test: sendLat, args: "-n 20 --polling --use-srq", serverRows: 1},
		{test: Test{Verb: Write, Latency: true}, args: "-n 300", serverRows: 1}, // the counter wraps
		{test: Test{Verb: Write, Latency: true}, args: "-n 5 -a -t 1 -m 4096", sizes: all, serverRows: 23},
		// An unreliable message has to fit the socket buffers of any machine.
		{test: Test{Verb: Write, Latency: true}, args: "-n 20 -c UC -s 3000", serverRows: 1},
		{test: Test{Verb: Write, Latency: true}, args: "-n 20 -I 100 --latency_gap=10 --polling", serverRows: 1},
		{test: readLat, args: "-n 50", serverRows: 0},
		{test: readLat, args: "-n 5 -a", sizes: all, serverRows: 0},
		{test: Test{Verb: Atomic, Latency: true}, args: "-n 50 -A CMP_AND_SWAP", serverRows: 0},
		{test: Test{Verb: Atomic, Latency: true}, args: "-n 20 --polling", serverRows: 0},
	} {
		if (testing.Short() || seeds.Race && !strings.Contains(c.args, "-a -b")) && c.sizes != nil {
			continue // messages of up to 8 MiB; under the race detector, those of one test
		}
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			server, client := &toolcheck.Side{Args: args}, &toolcheck.Side{Args: args}
			onServer, onClient := runJSON(t, c.test, server, client)
			if c.sizes == nil {
				require.Len(t, onClient.Results, 1)
			} else {
				require.Equal(t, c.sizes, field(onClient, "size"))
			}
			require.Len(t, onServer.Results, c.serverRows)
			figure := "bw_average"
			if c.test.Latency {
				figure = "t_typical"
			}
			for _, v := range append(field(onClient, figure), field(onServer, figure)...) {
				require.Positive(t, v)
			}
			require.Equal(t, "client", onClient.Role)
			require.Equal(t, "server", onServer.Role)
			require.Equal(t, onClient.LocalGID, onServer.RemoteGID)
			require.Equal(t, onClient.RemoteGID, onServer.LocalGID)
			require.Equal(t, client.Addr, onClient.LocalGID)
		})
	}
}

func TestDuration(t *testing.T) {
	for i, c := range []struct {
		test Test
		args string
	}{
		{writeBW, "-D 1"},
		{writeBW, "-D 1 -b -s 1000"},
		{sendBW, "-D 1 -s 512"},
		{sendBW, "-D 1 -s 512 -b"},
		{sendBW, "-D 1 -s 512 -c UD -t 8"},
		{Test{Verb: Read}, "-D 1 -q 2"},
		{sendLat, "-D 1"},
		{Test{Verb: Write, Latency: true}, "-D 1"},
		{readLat, "-D 1"},
		{Test{Verb: Atomic, Latency: true}, "-D 1"},
	} {
		if testing.Short() && i > 0 ||
			seeds.Race && (len(c.args) > len("-D 1") || c.test != writeBW && c.test != sendLat) {
			continue // each takes a second, of processors, too: raced one of bandwidth, one of latency
		}
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			_, onClient := runJSON(t, c.test, &toolcheck.Side{Args: args}, &toolcheck.Side{Args: args})
			require.Len(t, onClient.Results, 1)
			require.Positive(t, field(onClient, "iterations")[0])
			require.Equal(t, 1, onClient.Duration)
		})
	}
}

// IPv6 has one loopback address: both sides share the device on it.
func TestLoopbackIPv6(t *testing.T) {
	dev := toolcheck.Device6(t)
	open := func(verbs.Config) (*verbs.Device, func() error, error) { return dev, func() error { return nil }, nil }
	for _, test := range Tests() {
		t.Run(test.Name(), func(t *testing.T) {
			side := func() *toolcheck.Side {
				return &toolcheck.Side{Args: strings.Fields("-n 20 --ipv6"), Open: open, Addr: "::1"}
			}
			_, onClient := runJSON(t, test, side(), side())
			require.Equal(t, "::1", onClient.RemoteGID)
		})
	}
	require.Zero(t, dev.MemCounts().Regions, "everything was given back")
}

func TestReversed(t *testing.T) {
	args := strings.Fields("-n 20 --reversed")
	onServer, onClient := runJSON(t, sendBW, &toolcheck.Side{Args: args}, &toolcheck.Side{Args: args})
	require.Positive(t, field(onServer, "bw_peak")[0], "the listening side sent")
	require.Zero(t, field(onClient, "bw_peak")[0])
}

func TestTextOnBothSides(t *testing.T) {
	server := &toolcheck.Side{Args: []string{"-n", "20"}}
	client := &toolcheck.Side{Args: []string{"-n", "20", "-F", "-S", "0", "-i", "1"}}
	toolcheck.Run(t, Command(writeBW), server, client)
	require.NoError(t, client.Err)
	require.NoError(t, server.Err)
	for _, out := range []string{server.Stdout.String(), client.Stdout.String()} {
		require.Contains(t, out, "RDMA_Write BW Test")
		require.Contains(t, out, headBWMiB)
		require.Contains(t, out, "\n 65536      20  ")
	}
	require.Contains(t, server.Stdout.String(), "Waiting for client")
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		server, client string
		want           string
	}{
		"limit":            {"-n 20", "-n 20 -w 1e12", "below the limit"},
		"GID index":        {"-n 20", "-n 20 -x 4", "the GID table has 1 entries"},
		"fewer QPs":        {"-n 20", "-n 20 -q 2", "the peer closed the connection"},
		"more QPs":         {"-n 20 -q 2", "-n 20", "both sides must run the same test"},
		"UD message":       {"-c UD -s 64", "-c UD -s 8192", "a UD message is one packet"},
		"outstanding":      {"", "-o 200", "outstanding operations"},
		"other's address":  {"-n 20", "-n 20 --addr 192.0.2.1", "not an address of this machine"},
		"source of TCP":    {"-n 20", "-n 20 --source_ip nowhere", "--source_ip"},
		"message rate":     {"-n 20", "-n 20 -y 1e12", "message rate"},
		"unwritable JSON":  {"-n 20", "-n 20 --out_json --out_json_file=/nonexistent/x", "--out_json"},
		"link of the past": {"-n 20", "-n 20 --link=token-ring", "token-ring"},
	} {
		t.Run(name, func(t *testing.T) {
			test := writeBW
			if strings.Contains(c.client, "-c UD") {
				test = sendBW
			}
			if strings.Contains(c.client, "-o ") {
				test = Test{Verb: Read}
			}
			server := &toolcheck.Side{Args: strings.Fields(c.server)}
			client := &toolcheck.Side{Args: strings.Fields(c.client)}
			toolcheck.Run(t, Command(test), server, client)
			require.ErrorContains(t, client.Err, c.want, "server: %v", server.Err)
		})
	}
}

// Server and client may have the same address.
func TestSameAddress(t *testing.T) {
	at := "--addr " + toolcheck.Addr(t).String()
	for _, c := range []struct {
		test Test
		args string
	}{{writeBW, "-n 50"}, {sendBW, "-n 50 -c UD -s 64"}, {writeBW, "-n 20 -R"}} {
		args := strings.Fields(c.args + " " + at)
		onServer, onClient := runJSON(t, c.test, &toolcheck.Side{Args: args}, &toolcheck.Side{Args: args})
		require.Len(t, onServer.Results, 1)
		require.Len(t, onClient.Results, 1)
	}
}

func ExampleParse() {
	o, err := parse(Test{Verb: Write}, []string{"-s", "4K", "-q", "2", "10.0.0.1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.Test.Name(), o.Size, o.QPs, o.Host, o.Driver())
	// Output: write_bw 4096 2 10.0.0.1 true
}
