package rdmacm

import (
	"bytes"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce"
	"github.com/stretchr/testify/require"
)

// Texts of size_str, cnt_str and the table of rdma-core's examples.
func TestStreamTable(t *testing.T) {
	for n, want := range map[int64]string{
		64: "64", 192: "192", 1023: "1023", 1 << 10: "1k", 3 << 9: "1.5k", 1200: "1.1k", 10239: "9.9k", 10240: "10k",
		1<<20 + 1: "1m", 3 << 19: "1.5m", 200 << 20: "200m", 1 << 30: "1g", 5 << 29: "2.5g",
	} {
		require.Equal(t, want, sizeText(n), "%d", n)
	}
	for n, want := range map[int]string{5: "5", 999: "999", 1000: "1k", 100000: "100k", 2500000: "2m", 1e9: "1b"} {
		require.Equal(t, want, countText(n))
	}
	var out bytes.Buffer
	streamHeader(&out)
	test := throughputTest(1 << 16)
	test.row(&out, 2500*time.Millisecond)
	test = latencyTest(64)
	test.row(&out, time.Second)
	require.Equal(t, "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n"+
		"64k_bw    64k     1k      1       125m        2.50s      0.42    1250.00\n"+
		"64_lat    64      1       100k    12m         1.00s      0.10       5.00\n", out.String())
	require.Equal(t, []int{64, 4096, 65536, 1 << 20}, streamSizes(false))
	require.Len(t, streamSizes(true), 33)
	require.Equal(t, "1.5k_bw", throughputTest(3<<9).Name)
}

func TestStreamOptions(t *testing.T) {
	take := func(o *streamOptions, args string) (*streamOptions, error) {
		return o, parse(o.name(), "", o, bytesFields(args))
	}
	for args, want := range map[string]func(o *streamOptions){
		"":                        func(o *streamOptions) {},
		"-s host -p 80 -b here":   func(o *streamOptions) { o.Server, o.Port, o.Bind = "host", 80, "here" },
		"-S all":                  func(o *streamOptions) { o.All = true },
		"-S 5 -C 6 -I 7":          func(o *streamOptions) { o.Custom, o.Test = true, streamTest{"custom", 5, 6, 7} },
		"-T v":                    func(o *streamOptions) { o.Verify = true },
		"-T verify -T a -T block": func(o *streamOptions) { o.Verify = true },
		"-T sockets":              func(o *streamOptions) { o.TCP = true },
		"-T f":                    func(o *streamOptions) { o.TCP = true },
		"-k 5 -B 100 -i 0 -f ip":  func(o *streamOptions) { o.KeepAlive, o.Buffer, o.Numeric = 5, 100, true },
	} {
		exp := newStreamOptions(false)
		want(exp)
		got, err := take(newStreamOptions(false), args)
		require.NoError(t, err, args)
		require.Equal(t, exp, got, args)
	}
	for _, args := range []string{"host", "-T x", "-T verif", "-S 0", "-f gid", "-f mac", "-k 0", "-z"} {
		_, err := take(newStreamOptions(false), args)
		var usage *getopt.Error
		require.ErrorAs(t, err, &usage, args)
	}
	for _, args := range []string{"-T s", "-T resolve", "-k 5"} {
		_, err := take(newStreamOptions(true), args)
		require.Error(t, err, args)
	}
	var text *tool.Text
	_, err := take(newStreamOptions(false), "-h")
	require.ErrorAs(t, err, &text)
	require.Contains(t, text.Text, "-S=<bytes>")
	require.Equal(t, 9*time.Second, (&streamOptions{KeepAlive: 9}).socket().KeepAlive)
	require.Equal(t, roce.DefaultKeepAlive, (&streamOptions{}).socket().KeepAlive, "or a killed peer is waited for")
	require.Error(t, (&streamOptions{Numeric: true, Server: "localhost"}).check())
	require.NoError(t, (&streamOptions{Numeric: true, Bind: "::1"}).check())
}

// streamCommand is one of the subcommands as Commands has it.
func streamCommand(create func() program) tool.Command { return command("rstream", "", create) }

func bytesFields(s string) []string {
	var out []string
	for _, f := range bytes.Fields([]byte(s)) {
		out = append(out, string(f))
	}
	return out
}

func TestStreamPattern(t *testing.T) {
	var sent, got streamPattern
	b := make([]byte, 300)
	for range 3 {
		sent.Fill(b)
		require.NoError(t, got.Check(b))
	}
	sent.Fill(b)
	b[7]++
	require.EqualError(t, got.Check(b), "data verification failed byte 907")
}

func TestStream(t *testing.T) {
	const table = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\ncustom    "
	for _, args := range []string{
		"-S 3000 -C 20 -I 3 -T v", "-S 1 -C 500 -T v", "-S 1000000 -C 4 -T v -B 5000",
		"-S 100 -C 50 -T v --polling", "-S 5000 -C 20 -T v -T s",
	} {
		t.Run(args, func(t *testing.T) {
			where, bind := "-p 0 --addr LOCAL ", "--addr LOCAL -s SERVER -p PORT "
			if args[len(args)-1] == 's' { // TCP
				where, bind = "-p 0 -b 127.0.0.1 ", "-s SERVER -p PORT "
			}
			server, client := toolcheck.Pair(t, streamCommand(newStream), nil, where+args, bind+args)
			require.NoError(t, client.Err, "server: %v", server.Err)
			require.NoError(t, server.Err)
			for _, s := range []*toolcheck.Side{server, client} {
				require.Contains(t, s.Stdout.String(), table)
			}
		})
	}
}

func TestStreamIPv6(t *testing.T) {
	server, client := toolcheck.Pair(t, streamCommand(newStream), toolcheck.Shared6(t),
		"-p 0 -b :: -S 3000 -C 20 -T v -k 1", "-s SERVER -p PORT -S 3000 -C 20 -T v -k 9")
	require.NoError(t, client.Err, "server: %v", server.Err)
	require.NoError(t, server.Err)
	require.Contains(t, client.Stdout.String(), "Keepalive: ON\n  time: 9\ncustom ")
}

func TestStreamRefused(t *testing.T) {
	env := &tool.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
	a := toolcheck.Addr(t).String()
	err := streamCommand(newStream).Run(t.Context(), env, []string{"--addr", a, "-s", a, "-p", "99"})
	require.ErrorContains(t, err, "connection refused")
}
