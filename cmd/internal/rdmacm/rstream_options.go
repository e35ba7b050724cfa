package rdmacm

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

const (
	streamPort      = 7471
	streamBuffer    = 1 << 19 // as given to SO_SNDBUF and SO_RCVBUF
	streamSyncBytes = 16      // sent both ways before a test
	streamMaxSize   = 1 << 30
)

// streamOptions is the command line.
type streamOptions struct {
	tool.DeviceOptions

	Server  string // -s; empty on the server
	Bind    string // -b
	Port    int    // of RDMA-CM; with TCP, of TCP
	Buffer  int    // bytes; SO_SNDBUF and SO_RCVBUF
	Numeric bool   // -f ip
	All     bool   // -S all
	Verify  bool
	TCP     bool
	// KeepAlive is in seconds; 0 for none.
	KeepAlive int
	// Custom is set by -S, -C and -I: one test instead of the table.
	Custom bool
	Test   streamTest

	mapped bool // riostream: transfers go into mappings
}

// newStream and newMappedStream are rstream and riostream: streams over an rsocket, and RDMA WRITEs
// straight into memory that the other side has mapped.
func newStream() program { return newStreamOptions(false) }

func newMappedStream() program { return newStreamOptions(true) }

func newStreamOptions(mapped bool) *streamOptions {
	return &streamOptions{Port: streamPort, Buffer: streamBuffer,
		Test: streamTest{"custom", 1000, 1000, 1}, mapped: mapped}
}

func (o *streamOptions) name() string {
	if o.mapped {
		return "riostream"
	}
	return "rstream"
}

func (o *streamOptions) device() *tool.DeviceOptions { return &o.DeviceOptions }

func (o *streamOptions) usage() []string {
	return []string{"           start a server and wait for a connection", "-s <host>  connect to the server at <host>"}
}

// check refuses names where -f does.
func (o *streamOptions) check() error {
	for _, host := range []string{o.Server, o.Bind} {
		if _, err := netip.ParseAddr(host); o.Numeric && host != "" && err != nil {
			return fmt.Errorf("-f allows no names: %w", err)
		}
	}
	return nil
}

func (o *streamOptions) options() []getopt.Option {
	custom := func(set func(string) error) func(string) error {
		return func(s string) error { o.Custom = true; return set(s) }
	}
	opts := []getopt.Option{
		{Short: 's', Arg: "address", Help: "name or address of the server; without it this is the server",
			Set: getopt.String(&o.Server)},
		{Short: 'b', Arg: "address", Help: "local address", Set: getopt.String(&o.Bind)},
		{Short: 'f', Arg: "format", Help: "of addresses: name (default), ip, ipv6", Set: o.setFormat},
		{Short: 'B', Arg: "bytes", Help: "half of the size of send and receive buffer (default 512 KiB)",
			Set: getopt.Int(&o.Buffer, 1, 1<<29)},
		{Short: 'i', Arg: "bytes", Set: getopt.Ignore},
		{Short: 'I', Arg: "n", Help: "one test: iterations (default 1)",
			Set: custom(getopt.Int(&o.Test.Iterations, 1, 1<<31-1))},
		{Short: 'C', Arg: "n", Help: "one test: transfers in a row (default 1000)",
			Set: custom(getopt.Int(&o.Test.Transfers, 1, 1<<31-1))},
		{Short: 'S', Arg: "bytes", Help: "one test: size of a transfer (default 1000); or \"all\": a longer table",
			Set: func(s string) error {
				if strings.HasPrefix(strings.ToLower(s), "all") {
					o.All = true
					return nil
				}
				return custom(getopt.Int(&o.Test.Size, 1, streamMaxSize))(s)
			}},
		{Short: 'p', Arg: "port", Help: "port of the server (default 7471)", Set: getopt.Int(&o.Port, 0, 65535)},
		{Short: 'T', Arg: "option", Help: o.testHelp(), Set: o.setTest},
	}
	if !o.mapped {
		opts = append(opts, getopt.Option{Short: 'k', Arg: "seconds", Help: "time between keep-alive probes",
			Set: getopt.Int(&o.KeepAlive, 1, 1<<31-1)})
	}
	return opts
}

func (o *streamOptions) testHelp() string {
	if o.mapped {
		return "a|async, b|blocking, n|nonblocking (no difference here), v|verify the data"
	}
	return "s|sockets: TCP instead; a|async, b|blocking, n|nonblocking, r|resolve (no difference here); f|fork: TCP; v|verify the data"
}

func (o *streamOptions) setFormat(s string) error {
	switch s = strings.ToLower(s); {
	case strings.HasPrefix(s, "ip"):
		o.Numeric = true
	case strings.HasPrefix(s, "gid"):
		return fmt.Errorf("not supported: addresses here are those of IP")
	case s != "name":
		return fmt.Errorf("%q is not one of name, ip and ipv6", s)
	}
	return nil
}

// setTest takes an option of -T: a letter, or a word that begins with a known one.
func (o *streamOptions) setTest(s string) error {
	s = strings.ToLower(s)
	for _, t := range []struct {
		word   string
		prefix int // letters that count
		set    *bool
	}{
		{"socket", 6, &o.TCP}, {"async", 5, nil}, {"block", 5, nil}, {"nonblock", 8, nil}, {"resolve", 7, nil},
		{"verify", 6, &o.Verify}, {"fork", 4, &o.TCP},
	} {
		if s != t.word[:1] && !strings.HasPrefix(s, t.word[:t.prefix]) {
			continue
		}
		if o.mapped && (t.set == &o.TCP || t.word == "resolve") {
			break
		}
		if t.set != nil {
			*t.set = true
		}
		return nil
	}
	return fmt.Errorf("%q is not known", s)
}

// socket is the configuration of the sockets. Without -k there are probes, too: if one of the
// originals is killed its kernel tells the peer, but nobody does for this program, and a peer that
// only waits would wait for ever. Close waits: with the program ends what sends the last transfer.
func (o *streamOptions) socket() rsocket.Config {
	c := rsocket.Config{SendBuffer: 2 * o.Buffer, RecvBuffer: 2 * o.Buffer, KeepAlive: roce.DefaultKeepAlive,
		Linger: streamLinger}
	if o.mapped {
		c.IOMaps = 1
	}
	if o.KeepAlive > 0 {
		c.KeepAlive = time.Duration(o.KeepAlive) * time.Second
	}
	return c
}

// streamLinger is how long Close waits for the peer's adapter.
const streamLinger = 5 * time.Second
