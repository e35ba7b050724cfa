package perftest

import (
	"errors"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

var (
	writeBW  = Test{Verb: Write}
	sendBW   = Test{Verb: Send}
	sendLat  = Test{Verb: Send, Latency: true}
	readLat  = Test{Verb: Read, Latency: true}
	atomicBW = Test{Verb: Atomic}
)

func TestNames(t *testing.T) {
	var names []string
	for _, test := range Tests() {
		names = append(names, test.Name())
	}
	require.ElementsMatch(t, []string{
		"send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat", "atomic_bw", "atomic_lat",
	}, names)
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		test                             Test
		args                             string
		size, iters, tx, rx, cqmod       int
		transport                        ib.Transport
		driver, noPeak                   bool
		margin, duration, port, gidIndex int
	}{
		{test: writeBW, size: 65536, iters: 5000, tx: 128, rx: 512, cqmod: 1, margin: -1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -s 1K -n 50 -x 1 -p 9", size: 1024, iters: 50, tx: 50, rx: 50, cqmod: 50,
			driver: true, margin: -1, port: 9, gidIndex: 1},
		{test: writeBW, args: "h -s 2M -Q 10", size: 2 << 20, iters: 5000, tx: 128, rx: 512, cqmod: 10,
			driver: true, margin: -1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -a", size: 8 << 20, iters: 5000, tx: 128, rx: 512, cqmod: 100, driver: true,
			margin: -1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -D 8", size: 65536, tx: 128, rx: 512, cqmod: 1, driver: true, noPeak: true,
			margin: 2, duration: 8, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -D 1", size: 65536, tx: 128, rx: 512, cqmod: 1, driver: true, noPeak: true,
			duration: 1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -n 20001", size: 65536, iters: 20001, tx: 128, rx: 512, cqmod: 1,
			driver: true, noPeak: true, margin: -1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h --reversed", size: 65536, iters: 5000, tx: 128, rx: 512, cqmod: 1,
			margin: -1, port: 18515, gidIndex: -1},
		{test: writeBW, args: "h -l 4 -n 100 -s 8", size: 8, iters: 100, tx: 100, rx: 100, cqmod: 4,
			driver: true, margin: -1, port: 18515, gidIndex: -1},
		{test: sendBW, args: "-c UD -s 1024", size: 1024, iters: 1000, tx: 128, rx: 1000, cqmod: 100,
			transport: ib.UD, noPeak: true, margin: -1, port: 18515, gidIndex: -1},
		{test: sendBW, args: "-c UC -r 100", size: 65536, iters: 1000, tx: 128, rx: 100, cqmod: 1,
			transport: ib.UC, noPeak: true, margin: -1, port: 18515, gidIndex: -1},
		{test: sendLat, args: "h", size: 2, iters: 1000, tx: 1, rx: 512, cqmod: 1, driver: true, margin: -1,
			port: 18515, gidIndex: -1},
		{test: atomicBW, args: "h -a", size: 8, iters: 1000, tx: 128, rx: 512, cqmod: 100, driver: true,
			margin: -1, port: 18515, gidIndex: -1},
	} {
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			o := mustParse(t, c.test, strings.Fields(c.args)...)
			require.Equal(t, c.size, o.Size, "size")
			require.Equal(t, c.iters, o.Iters, "iterations")
			require.Equal(t, c.tx, o.TxDepth, "tx depth")
			require.Equal(t, c.rx, o.RxDepth, "rx depth")
			require.Equal(t, c.cqmod, o.CQMod, "CQ moderation")
			if c.transport == ib.TransportInvalid {
				c.transport = ib.RC
			}
			require.Equal(t, c.transport, o.Transport)
			require.Equal(t, c.driver, o.Driver(), "drives")
			require.Equal(t, c.noPeak, o.NoPeak, "peak")
			require.Equal(t, c.margin, o.Margin, "margin")
			require.Equal(t, c.duration, o.Duration, "duration")
			require.Equal(t, c.port, o.Port, "port")
			require.Equal(t, c.gidIndex, o.GIDIndex, "GID index")
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		test Test
		args string
		want string
	}{
		{writeBW, "a b", "one host at most"},
		{writeBW, "-s 0", "a message has 1 to"},
		{writeBW, "-s 3000M", "a message has 1 to"},
		{writeBW, "-s x", "a message has 1 to"},
		{writeBW, "-m 1500", "not one of 256"},
		{writeBW, "-n 4", "not within 5 to"},
		{writeBW, "-c UD", "write_bw does not run over"},
		{writeBW, "-c XRC", "XRC is not supported"},
		{writeBW, "-R -c UC", "RDMA-CM connects no UC"},
		{writeBW, "-T 8", "belongs to -R"},
		{writeBW, "-e", "unknown"},
		{writeBW, "-A FETCH_AND_ADD", "unknown"},
		{writeBW, "-D 2 -a", "-D and -a"},
		{writeBW, "-D 4 -f 2", "twice the margin"},
		{writeBW, "-l 3", "not a multiple of -l 3"},
		{writeBW, "-l 4 -Q 3", "not a multiple of -Q"},
		{sendBW, "-D 2 -e", "-D and -e"},
		{sendBW, "--use-srq -q 8 -r 4", "needs -r 8"},
		{sendLat, "-b", "unknown"},
		{sendLat, "-q 2", "unknown"},
		{readLat, "-c UC", "read_lat does not run over"},
		{atomicBW, "-s 16", "8 bytes"},
		{atomicBW, "-A ADD", "not one of"},
	} {
		_, err := parse(c.test, strings.Fields(c.args))
		require.ErrorContains(t, err, c.want, "%s %s", c.test.Name(), c.args)
	}
}

// Latency tests poll the device, where the originals look all the time.
func TestPollingByDefault(t *testing.T) {
	for _, c := range []struct {
		test Test
		args string
		want bool
	}{
		{Test{Verb: Write, Latency: true}, "", true},
		{Test{Verb: Write, Latency: true}, "peer", true},
		{Test{Verb: Write, Latency: true}, "--event", false},
		{sendLat, "", true},
		{sendLat, "-e peer", false},
		{sendLat, "-R peer", false},
		{sendLat, "-z peer", false},
		{Test{Verb: Read, Latency: true}, "peer", true},
		{Test{Verb: Read, Latency: true}, "", false},
		{Test{Verb: Atomic, Latency: true}, "--reversed", true},
		{writeBW, "peer", false},
		{writeBW, "--polling peer", true},
	} {
		o, err := parse(c.test, strings.Fields(c.args))
		require.NoError(t, err)
		require.Equal(t, c.want, o.Polling, "%s %s", c.test.Name(), c.args)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, test := range Tests() {
		_, err := parse(test, []string{"-h"})
		var text *tool.Text
		require.True(t, errors.As(err, &text))
		require.Contains(t, text.Text, "roce "+test.Name()+" <host>")
		require.Contains(t, text.Text, "--addr=<ip>")
	}
	_, err := parse(writeBW, []string{"--version"})
	require.EqualError(t, err, "Version: 6.06\n")
}

// Every option of every test is reachable: no letter or name is given twice.
func TestOptionsAreDistinct(t *testing.T) {
	for _, test := range Tests() {
		o := &Options{Test: test}
		seen := map[string]bool{}
		for _, opt := range o.options() {
			for _, name := range []string{"-" + string(opt.Short), "--" + opt.Long} {
				if name == "-\x00" || name == "--" {
					continue
				}
				require.False(t, seen[name], "%s has %s twice", test.Name(), name)
				seen[name] = true
			}
		}
	}
}
