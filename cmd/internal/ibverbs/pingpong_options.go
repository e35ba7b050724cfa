package ibverbs

import (
	"fmt"
	"strconv"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
)

// Kind is one of the four tools.
type Kind uint8

// The tools.
const (
	RC Kind = iota
	UC
	UD
	SRQ
)

var kinds = []Kind{RC, UC, UD, SRQ}

// Name returns the name of the subcommand; with "ibv_" in front it is the name of the original.
func (k Kind) Name() string {
	return [...]string{"rc_pingpong", "uc_pingpong", "ud_pingpong", "srq_pingpong"}[k]
}

// Summary describes the tool in a line.
func (k Kind) Summary() string {
	return "SEND back and forth over " + [...]string{"RC", "UC", "UD", "RC with a shared receive queue"}[k] +
		", as ibv_" + k.Name()
}

func (k Kind) transport() ib.Transport {
	return [...]ib.Transport{ib.RC, ib.UC, ib.UD, ib.RC}[k]
}

// Defaults and bounds of the originals.
const (
	defaultSize    = 4096
	defaultSizeUD  = 1024
	defaultRxDepth = 500
	defaultIters   = 1000
	defaultQPs     = 16 // srq_pingpong
	maxQPs         = 256
	maxSize        = 1 << 30
	maxRxDepth     = 16384
	qkey           = 0x11111111
	minRNRTimer    = 12 // 0.64 ms
	defaultTimeout = 14 // the code of 67 ms
	retryCount     = 7
	fill           = 0x7b // what the originals fill the buffer with
	checkEvery     = 4096 // -c looks at one byte of each page
	grhBytes       = 40
)

// Options is the command line of one tool.
type Options struct {
	Kind Kind
	tool.DeviceOptions

	Host     string // of the server; empty on the server
	Port     int    // TCP
	Size     int    // bytes
	MTU      ib.MTU
	RxDepth  int
	Iters    int
	QPs      int // srq_pingpong; else 1
	Events   bool
	Check    bool // compare the received bytes
	GIDIndex int
	JSON     bool
	// QPTimeout is the code of the ACK timeout of RC, 4.096 us x 2^code. The originals know no
	// other than the default.
	QPTimeout int
}

func (o *Options) options() []getopt.Option {
	opts := []getopt.Option{
		{Short: 'p', Long: "port", Arg: "port", Help: "TCP port to listen on or connect to (default 18515)",
			Set: getopt.Int(&o.Port, 0, 65535)},
		{Short: 'i', Long: "ib-port", Arg: "port", Help: "port of the device: 1", Set: getopt.Int(new(int), 1, 1)},
		{Short: 's', Long: "size", Arg: "bytes", Help: fmt.Sprintf("message size (default %d)", o.Size),
			Set: getopt.Int(&o.Size, 1, maxSize)},
		{Short: 'r', Long: "rx-depth", Arg: "n", Help: "receives posted at a time (default 500)",
			Set: getopt.Int(&o.RxDepth, 1, maxRxDepth)},
		{Short: 'n', Long: "iters", Arg: "n", Help: "number of exchanges (default 1000)",
			Set: getopt.Int(&o.Iters, 1, 1<<31-1)},
		{Short: 'l', Long: "sl", Arg: "sl", Help: "service level; has no meaning on Ethernet",
			Set: getopt.Int(new(int), 0, 15)},
		{Short: 'e', Long: "events", Help: "sleep on completion events", Set: getopt.Bool(&o.Events)},
		{Short: 'g', Long: "gid-idx", Arg: "index", Help: "index of the local GID (default 0)",
			Set: getopt.Int(&o.GIDIndex, 0, 255)},
		{Short: 'c', Long: "chk", Help: "compare the received bytes", Set: getopt.Bool(&o.Check)},
		{Short: 'o', Long: "odp", Set: getopt.Ignore},
		{Short: 'N', Long: "new_send", Set: getopt.Ignore},
		{Short: 't', Long: "ts", Set: getopt.Unsupported("completions carry no timestamps")},
		{Short: 'j', Long: "dm", Set: getopt.Unsupported("goroce has no device memory")},
		{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&o.JSON)},
	}
	if o.Kind != UD {
		opts = append(opts,
			getopt.Option{Short: 'm', Long: "mtu", Arg: "mtu", Help: "path MTU (default 1024)", Set: o.setMTU})
	}
	if o.Kind.transport() == ib.RC {
		opts = append(opts, getopt.Option{Long: "qp-timeout", Arg: "code",
			Help: "QP timeout, 4.096 us x 2^code (default 14)", Set: getopt.Int(&o.QPTimeout, 0, 31)})
	}
	if o.Kind == SRQ {
		opts = append(opts, getopt.Option{Short: 'q', Long: "num-qp", Arg: "n",
			Help: "number of QPs (default 16)", Set: getopt.Int(&o.QPs, 1, maxQPs-1)})
	}
	return append(opts, o.DeviceOptions.Options()...)
}

func (o *Options) setMTU(s string) error {
	n, err := strconv.Atoi(s)
	mtu, ok := ib.MTUFromBytes(n)
	if err != nil || !ok {
		return fmt.Errorf("%q is not one of 256, 512, 1024, 2048 and 4096", s)
	}
	o.MTU = mtu
	return nil
}

// parse reads the command line of one of the tools; a request for help comes back as a *tool.Text.
func parse(k Kind, args []string) (*Options, error) {
	o := &Options{Kind: k, Port: oob.DefaultPort, Size: defaultSize, MTU: ib.MTU1024, RxDepth: defaultRxDepth,
		Iters: defaultIters, QPs: 1, QPTimeout: defaultTimeout}
	switch k {
	case UD:
		o.Size = defaultSizeUD
	case SRQ:
		o.QPs = defaultQPs
	}
	operands, err := tool.Parse(tool.PeerUsage(k.Name(), k.Summary(), "<host>"), o.options(), args)
	switch {
	case err != nil:
		return nil, err
	case len(operands) > 1:
		return nil, getopt.Misuse("one host at most, not %q", operands)
	case len(operands) == 1:
		o.Host = operands[0]
	}
	if o.QPs > o.RxDepth {
		return nil, getopt.Misuse("-r %d is too small for -q %d: each QP needs a receive", o.RxDepth, o.QPs)
	}
	return o, nil
}
