package ibverbs

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestLoopback(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		args  string
		bytes int64
	}{
		{RC, "-n 100", 100 * 4096 * 2},
		{RC, "-n 20 -s 100000 -m 256 -c", 20 * 100000 * 2},
		{RC, "-n 20 -s 1 -e", 20 * 2},
		{RC, "-n 50 -r 2 --polling", 50 * 4096 * 2},
		{UC, "-n 100 -r 10 -c", 100 * 4096 * 2},
		{UD, "-n 100 -c", 100 * 1024 * 2},
		{UD, "-n 20 -s 4000 -e -r 5", 20 * 4000 * 2},
		{SRQ, "-n 100 -c", 100 * 4096 * 2},
		{SRQ, "-n 60 -q 3 -r 20 -s 5000 -m 4096 -e", 60 * 5000 * 2},
		{SRQ, "-n 60 -q 4 --polling", 60 * 4096 * 2},
	} {
		t.Run(c.kind.Name()+" "+c.args, func(t *testing.T) {
			args := append(strings.Fields(c.args), "--json")
			server, client := &toolcheck.Side{Args: args}, &toolcheck.Side{Args: args}
			toolcheck.Run(t, Pingpongs()[c.kind], server, client)
			require.NoError(t, client.Err, "server: %v", server.Err)
			require.NoError(t, server.Err)
			var onServer, onClient result
			require.NoError(t, json.Unmarshal(server.Stdout.Bytes(), &onServer))
			require.NoError(t, json.Unmarshal(client.Stdout.Bytes(), &onClient))
			require.Equal(t, "server", onServer.Role)
			require.Equal(t, "client", onClient.Role)
			require.Equal(t, onServer.Local, onClient.Remote)
			require.Equal(t, onServer.Remote, onClient.Local)
			for _, r := range []result{onServer, onClient} {
				require.Equal(t, c.bytes, r.Bytes)
				require.Positive(t, r.Seconds)
				require.Positive(t, r.Mbit)
			}
		})
	}
}

// The text is what scripts read; numbers that differ from run to run are replaced.
func TestText(t *testing.T) {
	digits := regexp.MustCompile(`0x[0-9a-f]{6}|\d+\.\d\d`)
	for kind, want := range map[Kind]string{
		RC: "  local address:  LID 0x0000, QPN #, PSN #, GID ::ffff:CLIENT\n" +
			"  remote address: LID 0x0000, QPN #, PSN #, GID ::ffff:SERVER\n" +
			"81920 bytes in # seconds = # Mbit/sec\n10 iters in # seconds = # usec/iter\n",
		UD: "  local address:  LID 0x0000, QPN #, PSN #: GID ::ffff:CLIENT\n" +
			"  remote address: LID 0x0000, QPN #, PSN #, GID ::ffff:SERVER\n" +
			"20480 bytes in # seconds = # Mbit/sec\n10 iters in # seconds = # usec/iter\n",
	} {
		args := []string{"-n", "10"}
		// The same address.
		server, client := &toolcheck.Side{Args: args}, &toolcheck.Side{Args: append(args, "-g", "3")}
		toolcheck.Run(t, Pingpongs()[kind], server, client)
		require.NoError(t, client.Err)
		require.NoError(t, server.Err)
		got := strings.NewReplacer(client.Addr, "CLIENT", server.Addr, "SERVER").Replace(client.Stdout.String())
		require.Equal(t, want, digits.ReplaceAllString(got, "#"))
	}
}

// IPv6 has one loopback address: both sides share the device on it.
func TestLoopbackIPv6(t *testing.T) {
	dev := toolcheck.Device6(t)
	open := func(verbs.Config) (*verbs.Device, func() error, error) { return dev, func() error { return nil }, nil }
	for _, k := range kinds {
		side := func() *toolcheck.Side {
			return &toolcheck.Side{Args: []string{"-n", "20"}, Open: open, Addr: "::1"}
		}
		server, client := side(), side()
		toolcheck.Run(t, Pingpongs()[k], server, client)
		require.NoError(t, client.Err)
		require.NoError(t, server.Err)
		require.Contains(t, client.Stdout.String(), "GID ::1\n")
	}
	require.Zero(t, dev.MemCounts().Regions, "everything was given back")
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		kind           Kind
		server, client string
		want           string
	}{
		"GID index":  {RC, "", "-g 4", "the GID table has 1 entries"},
		"UD message": {UD, "", "-s 5000", "a UD message is one packet"},
		"QPs":        {SRQ, "-q 2", "-q 3", "fewer than 3 QPs"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &toolcheck.Side{Args: strings.Fields(c.server)}
			client := &toolcheck.Side{Args: strings.Fields(c.client)}
			toolcheck.Run(t, Pingpongs()[c.kind], server, client)
			require.ErrorContains(t, client.Err, c.want, "server: %v", server.Err)
		})
	}
}
