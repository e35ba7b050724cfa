package perftest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
)

// Options is the command line of one test after parsing and completion.
type Options struct {
	Test Test
	tool.DeviceOptions

	Host     string // of the server; empty on the server
	Port     int    // TCP
	SourceIP string
	Reversed bool // the side that listens drives the traffic

	Transport     ib.Transport
	Size          int // bytes
	sizeSet       bool
	All           bool // sizes 2 to 2^23
	Iters         int
	Duration      int // seconds; 0 runs Iters iterations
	durationSet   bool
	Margin        int // seconds at either end of Duration that do not count
	QPs           int
	TxDepth       int
	RxDepth       int
	CQMod         int // a completion every so many messages
	cqModSet      bool
	PostList      int
	MTU           int // bytes; 0 is the port's
	GIDIndex      int // -1: chosen by address
	IPv6          bool
	IPv6Addr      bool // the server's name is resolved to an IPv6 address
	TrafficClass  int
	FlowLabel     int
	ServiceLevel  int
	CM            bool // RDMA-CM connects the QPs
	ControlCM     bool // the exchange takes place on a QP that RDMA-CM connects
	TOS           int  // of -R; -1: not set
	QPTimeout     int
	RetryCount    int
	OutReads      int // READs and atomics outstanding; 0 is the device's most
	InlineSize    int // -1: the default of the test
	Bidirectional bool
	AtomicType    string
	UseSRQ        bool
	MRPerQP       bool
	Events        bool // sleep on completion events
	WarmUp        bool
	LatencyGapUs  int
	NoPeak        bool
	NoVersions    bool // leave out the exchange of version, page size and MTU

	ReportGbits bool
	ReportBoth  bool
	Histogram   bool
	Unsorted    bool
	Output      string // "bandwidth", "message_rate" or "latency": that number alone
	LimitBW     float64
	LimitRate   float64
	JSON        bool
	OutJSON     bool
	OutJSONFile string

	version bool
}

const (
	noMcast   = "multicast in perftest needs a subnet manager; use mckey"
	noDual    = "a goroce device has one port"
	noPacing  = "rate limiting"
	noGPU     = "goroce registers ordinary memory"
	noCPUUtil = "use time(1) or perf(1)"
)

// options returns the table of command line options that fill o.
func (o *Options) options() []getopt.Option {
	t := o.Test
	opts := []getopt.Option{
		{Short: 'p', Long: "port", Arg: "port", Help: "TCP port to listen on or connect to (default 18515)",
			Set: getopt.Int(&o.Port, 0, 65535)},
		{Short: 'm', Long: "mtu", Arg: "mtu", Help: "path MTU, 256 to 4096 (default: the port's)", Set: o.setMTU},
		{Short: 'c', Long: "connection", Arg: connectionsOf(t.Verb), Help: "transport (default RC)",
			Set: o.setConnection},
		{Short: 'n', Long: "iters", Arg: "n",
			Help: fmt.Sprintf("number of exchanges, at least %d (default %d)", minIters, defaultItersOf(t)),
			Set:  getopt.Int(&o.Iters, minIters, maxIters)},
		{Short: 'D', Long: "duration", Arg: "seconds",
			Help: "run for a time instead of a number of exchanges", Set: o.setDuration},
		{Short: 'f', Long: "margin", Arg: "seconds", Help: "leave out so much at both ends of -D (default a quarter)",
			Set: getopt.Int(&o.Margin, 0, 1<<20)},
		{Short: 'x', Long: "gid-index", Arg: "index", Help: "index of the local GID (default: by address)",
			Set: getopt.Int(&o.GIDIndex, 0, 255)},
		{Short: 'F', Long: "CPU-freq", Help: "accepted; there is no such warning here", Set: getopt.Ignore},
		{Short: 'S', Long: "sl", Arg: "sl", Help: "service level; has no meaning on Ethernet",
			Set: getopt.Int(&o.ServiceLevel, 0, 15)},
		{Short: 'u', Long: "qp-timeout", Arg: "code", Help: "QP timeout, 4.096 us x 2^code (default 14)",
			Set: getopt.Int(&o.QPTimeout, 0, 31)},
		{Short: 'i', Long: "ib-port", Arg: "port", Help: "port of the device: 1", Set: getopt.Int(new(int), 1, 1)},
		{Short: 'V', Long: "version", Help: "version of the exchange", Set: getopt.Bool(&o.version)},
		{Long: "ipv6", Help: "use an IPv6 GID by default", Set: getopt.Bool(&o.IPv6)},
		{Long: "ipv6-addr", Help: "meet the peer over IPv6", Set: getopt.Bool(&o.IPv6Addr)},
		{Long: "source_ip", Arg: "ip", Help: "local address of the TCP exchange", Set: getopt.String(&o.SourceIP)},
		{Long: "tclass", Arg: "class", Help: "IP traffic class", Set: getopt.Int(&o.TrafficClass, 0, 255)},
		{Long: "flow_label", Arg: "label", Help: "flow label: decides the UDP source port",
			Set: getopt.Int(&o.FlowLabel, 0, 1<<20-1)},
		{Long: "retry_count", Arg: "n", Help: "retries (default 7)", Set: getopt.Int(&o.RetryCount, 0, 7)},
		{Long: "mr_per_qp", Help: "register memory for each QP", Set: getopt.Bool(&o.MRPerQP)},
		{Long: "dont_xchg_versions", Help: "leave version, page size and MTU out of the exchange",
			Set: getopt.Bool(&o.NoVersions)},
		{Long: "reversed", Help: "swap the roles: the server side drives the test", Set: getopt.Bool(&o.Reversed)},
		{Long: "output", Arg: "units", Help: "print one number: bandwidth, message_rate or latency",
			Set: getopt.Choice(&o.Output, "bandwidth", "message_rate", "latency")},
		{Long: "json", Help: "print one JSON object instead of the table", Set: getopt.Bool(&o.JSON)},
		{Long: "out_json", Help: "also write the JSON object to a file", Set: getopt.Bool(&o.OutJSON)},
		{Long: "out_json_file", Arg: "file", Help: "its name (default perftest_out.json)",
			Set: getopt.String(&o.OutJSONFile)},

		{Short: 'R', Long: "rdma_cm", Help: "RDMA-CM connects the QPs and carries the exchange",
			Set: getopt.Bool(&o.CM)},
		{Short: 'z', Long: "comm_rdma_cm", Help: "a QP that RDMA-CM connects carries the exchange",
			Set: getopt.Bool(&o.ControlCM)},
		{Short: 'T', Long: "tos", Arg: "tos", Help: "type of service, with -R", Set: getopt.Int(&o.TOS, 0, 255)},
		{Short: 'O', Long: "dualport", Set: getopt.Unsupported(noDual)},
		{Long: "cpu_util", Set: getopt.Unsupported(noCPUUtil)},
		{Long: "use_cuda", Arg: "device", Set: getopt.Unsupported(noGPU)},
		{Long: "use_rocm", Arg: "device", Set: getopt.Unsupported(noGPU)},
		{Long: "mmap", Arg: "file", Set: getopt.Unsupported(noGPU)},
		{Long: "odp", Set: getopt.Ignore},
		{Long: "use_hugepages", Set: getopt.Ignore},
		{Long: "use_old_post_send", Set: getopt.Ignore},
		{Long: "disable_pcie_relaxed", Set: getopt.Ignore},
		{Long: "use_ooo", Set: getopt.Ignore},
		{Long: "force-link", Arg: "type", Set: getopt.Choice(new(string), "Ethernet", "ETHERNET")},
		{Long: "pkey_index", Arg: "index", Set: getopt.Int(new(int), 0, 0)},
		{Long: "dlid", Arg: "lid", Set: getopt.Ignore},
	}
	if t.Verb == Atomic {
		opts = append(opts,
			getopt.Option{Short: 'A', Long: "atomic_type", Arg: "type", Help: "CMP_AND_SWAP or FETCH_AND_ADD (default)",
				Set: getopt.Choice(&o.AtomicType, string(CompareAndSwap), string(FetchAndAdd))},
			getopt.Option{Short: 's', Long: "size", Arg: "size", Set: o.setSize})
	} else {
		opts = append(opts,
			getopt.Option{Short: 's', Long: "size", Arg: "bytes",
				Help: fmt.Sprintf("message size; K and M multiply (default %d)", defaultSizeOf(t)), Set: o.setSize})
	}
	opts = append(opts,
		getopt.Option{Short: 'a', Long: "all", Help: "sizes from 2 to 2^23 (UD: to the MTU)", Set: getopt.Bool(&o.All)})
	if t.Verb == Read || t.Verb == Atomic {
		opts = append(opts, getopt.Option{Short: 'o', Long: "outs", Arg: "n",
			Help: "operations outstanding (default: the device's most)", Set: getopt.Int(&o.OutReads, 1, 255)})
	} else {
		opts = append(opts, getopt.Option{Short: 'I', Long: "inline_size", Arg: "bytes",
			Help: "largest message sent inline", Set: getopt.Int(&o.InlineSize, 0, 912)})
	}
	if t.Verb != Write {
		opts = append(opts,
			getopt.Option{Short: 'e', Long: "events", Help: "sleep on completion events", Set: getopt.Bool(&o.Events)},
			getopt.Option{Short: 'X', Long: "vector", Arg: "n", Set: getopt.Int(new(int), 0, 2048)},
			getopt.Option{Long: "inline_recv", Arg: "bytes", Set: getopt.Ignore})
	}
	if t.Verb == Send {
		opts = append(opts,
			getopt.Option{Short: 'r', Long: "rx-depth", Arg: "n", Help: "receives posted (default 512)",
				Set: getopt.Int(&o.RxDepth, 1, maxRxDepth)},
			getopt.Option{Long: "use-srq", Help: "share one receive queue", Set: getopt.Bool(&o.UseSRQ)},
			getopt.Option{Short: 'g', Long: "mcg", Set: getopt.Unsupported(noMcast)},
			getopt.Option{Short: 'M', Long: "MGID", Arg: "gid", Set: getopt.Unsupported(noMcast)})
	} else {
		opts = append(opts, getopt.Option{Short: 'r', Long: "rx-depth", Arg: "n", Set: getopt.Int(new(int), 1, 1)})
	}
	if t.Latency {
		opts = append(opts,
			getopt.Option{Short: 'H', Long: "report-histogram", Help: "print all results, sorted",
				Set: getopt.Bool(&o.Histogram)},
			getopt.Option{Short: 'U', Long: "report-unsorted", Help: "print all results in order",
				Set: getopt.Bool(&o.Unsorted)},
			getopt.Option{Short: 'C', Long: "report-cycles",
				Set: getopt.Unsupported("goroce's clock counts nanoseconds, not cycles")},
			getopt.Option{Short: 't', Long: "tx-depth", Arg: "n", Set: getopt.Int(new(int), 1, maxTxDepth)},
			getopt.Option{Long: "latency_gap", Arg: "us", Help: "wait before each message",
				Set: getopt.Int(&o.LatencyGapUs, 0, 1<<30)})
	} else {
		opts = append(opts,
			getopt.Option{Short: 'b', Long: "bidirectional", Help: "both directions at once",
				Set: getopt.Bool(&o.Bidirectional)},
			getopt.Option{Short: 'q', Long: "qp", Arg: "n", Help: "number of QPs (default 1)",
				Set: getopt.Int(&o.QPs, 1, maxQPs)},
			getopt.Option{Short: 't', Long: "tx-depth", Arg: "n", Help: "messages in flight for each QP (default 128)",
				Set: getopt.Int(&o.TxDepth, 1, maxTxDepth)},
			getopt.Option{Short: 'Q', Long: "cq-mod", Arg: "n",
				Help: "one completion for n messages (default 100; 1 above 8 KiB)", Set: o.setCQMod},
			getopt.Option{Short: 'l', Long: "post_list", Arg: "n",
				Help: "post n messages at a time (default 1)", Set: getopt.Int(&o.PostList, 1, maxTxDepth)},
			getopt.Option{Short: 'N', Long: "noPeak", Help: "don't look for the peak", Set: getopt.Bool(&o.NoPeak)},
			getopt.Option{Short: 'w', Long: "limit_bw", Arg: "bw", Help: "fail below this bandwidth",
				Set: getopt.Float(&o.LimitBW)},
			getopt.Option{Short: 'y', Long: "limit_msgrate", Arg: "Mpps",
				Help: "fail below this message rate", Set: getopt.Float(&o.LimitRate)},
			getopt.Option{Long: "perform_warm_up", Help: "some messages before the measurement",
				Set: getopt.Bool(&o.WarmUp)},
			getopt.Option{Long: "report_gbits", Help: "Gbit/s instead of MiB/s", Set: getopt.Bool(&o.ReportGbits)},
			getopt.Option{Long: "report-both", Help: "with -b: print both directions too",
				Set: getopt.Bool(&o.ReportBoth)},
			getopt.Option{Long: "recv_post_list", Arg: "n", Set: getopt.Ignore},
			getopt.Option{Long: "run_infinitely", Set: getopt.Unsupported("use -D with a long time")},
			getopt.Option{Long: "report-per-port", Set: getopt.Unsupported(noDual)},
			getopt.Option{Long: "rate_limit", Arg: "rate", Set: getopt.Unsupported(noPacing)},
			getopt.Option{Long: "rate_limit_type", Arg: "type", Set: getopt.Unsupported(noPacing)},
			getopt.Option{Long: "rate_units", Arg: "units", Set: getopt.Unsupported(noPacing)},
			getopt.Option{Long: "burst_size", Arg: "n", Set: getopt.Unsupported(noPacing)})
	}
	return append(opts, o.DeviceOptions.Options()...)
}

func connectionsOf(v Verb) string {
	switch v {
	case Send:
		return "RC|UC|UD"
	case Write:
		return "RC|UC"
	}
	return "RC"
}

func defaultItersOf(t Test) int {
	if t.Verb == Write && !t.Latency {
		return defaultItersWrite
	}
	return defaultIters
}

func defaultSizeOf(t Test) int {
	switch {
	case t.Verb == Atomic:
		return sizeAtomic
	case t.Latency:
		return defaultSizeLat
	}
	return defaultSizeBW
}

func (o *Options) setSize(s string) error {
	factor := 1
	if n := len(s); n > 0 && (s[n-1] == 'K' || s[n-1] == 'M') {
		factor = 1 << 10
		if s[n-1] == 'M' {
			factor = 1 << 20
		}
		s = s[:n-1]
	}
	n, err := strconv.ParseInt(s, 0, 32)
	if err != nil || n < 1 || n*int64(factor) > maxSize {
		return fmt.Errorf("a message has 1 to %d bytes", maxSize)
	}
	o.Size, o.sizeSet = int(n)*factor, true
	return nil
}

func (o *Options) setMTU(s string) error {
	n, err := strconv.Atoi(s)
	if _, ok := ib.MTUFromBytes(n); err != nil || !ok {
		return fmt.Errorf("%q is not one of 256, 512, 1024, 2048 and 4096", s)
	}
	o.MTU = n
	return nil
}

func (o *Options) setConnection(s string) error {
	types := map[string]ib.Transport{"RC": ib.RC, "UC": ib.UC, "UD": ib.UD}
	tr, ok := types[s]
	switch {
	case !ok && (s == "XRC" || s == "DC" || s == "SRD" || s == "RawEth"):
		return fmt.Errorf("%s is not supported: goroce has RC, UC and UD", s)
	case !ok || !strings.Contains(connectionsOf(o.Test.Verb), s):
		return fmt.Errorf("%s does not run over %q; choose %s", o.Test.Name(), s, connectionsOf(o.Test.Verb))
	}
	o.Transport = tr
	return nil
}

func (o *Options) setDuration(s string) error {
	o.durationSet = true
	return getopt.Int(&o.Duration, 1, 1<<20)(s)
}

func (o *Options) setCQMod(s string) error {
	o.cqModSet = true
	return getopt.Int(&o.CQMod, 1, maxCQMod)(s)
}

// parse reads the command line of test t. Help and version requests come back
// as a *tool.Text, what is wrong as a *getopt.Error.
func parse(t Test, args []string) (*Options, error) {
	o := &Options{
		Test: t, Port: oob.DefaultPort, Transport: ib.RC, Size: defaultSizeOf(t), Iters: defaultItersOf(t),
		Margin: -1, QPs: 1, TxDepth: defaultTxDepth, RxDepth: defaultRxDepth, CQMod: defaultCQMod, PostList: 1,
		GIDIndex: -1, TOS: -1, QPTimeout: defaultQPTimeout, RetryCount: defaultRetryCount, InlineSize: -1,
		AtomicType: string(FetchAndAdd), OutJSONFile: "perftest_out.json",
	}
	operands, err := tool.Parse(tool.PeerUsage(t.Name(), t.Summary(), "<host>"), o.options(), args)
	switch {
	case err != nil:
		return nil, err
	case o.version:
		return nil, &tool.Text{Text: "Version: " + version + "\n"}
	case len(operands) > 1:
		return nil, getopt.Misuse("one host at most, not %q", operands)
	case len(operands) == 1:
		o.Host = operands[0]
	}
	return o, o.complete()
}

// Driver reports whether this side drives the traffic: the client, unless the roles are swapped.
func (o *Options) Driver() bool { return (o.Host != "") != o.Reversed }

// complete fills in what follows from the options and refuses combinations
// that make no sense, by the rules of the originals.
func (o *Options) complete() error {
	t := o.Test
	switch {
	case o.CM && o.Transport == ib.UC:
		return getopt.Misuse("RDMA-CM connects no UC QPs between perftests: leave out -R or choose RC or UD")
	case o.TOS >= 0 && !o.CM:
		return getopt.Misuse("-T belongs to -R; use --tclass")
	}
	if o.All {
		if t.Verb == Atomic {
			o.All = false // as the original: an atomic has one size
		} else {
			o.Size = maxSizeAll
		}
	}
	if t.Verb == Atomic && o.Size != sizeAtomic {
		return getopt.Misuse("an atomic operation has 8 bytes: leave out -s")
	}
	if o.durationSet {
		switch {
		case o.All:
			return getopt.Misuse("-D and -a do not go together: a time is for one size")
		case o.Events:
			return getopt.Misuse("-D and -e do not go together")
		}
		if o.Margin < 0 {
			o.Margin = o.Duration / 4
		}
		if o.Duration <= 2*o.Margin {
			return getopt.Misuse("-D %d is not longer than twice the margin of %d s (-f)", o.Duration, o.Margin)
		}
		o.Iters, o.NoPeak = 0, true
	} else {
		o.TxDepth = min(o.TxDepth, o.Iters)
		o.RxDepth = min(o.RxDepth, o.Iters)
		if o.Transport != ib.RC && o.RxDepth == min(defaultRxDepth, o.Iters) {
			// An unreliable transport loses what finds no receive posted.
			o.RxDepth = min(o.Iters, maxRxDepthUC)
		}
		if o.Iters > maxPeakIters || o.Iters*o.QPs > maxPeakSamples {
			o.NoPeak = true
		}
	}
	if t.Latency {
		o.TxDepth, o.CQMod = 1, 1
		// The originals look at their completion queue, or memory, all the time. A goroutine that
		// looks works for the device then; but the server of READs and atomics sleeps, as do both
		// sides with -e, and the exchange by RDMA-CM waits for events.
		if !o.Events && !o.Event && !o.CM && !o.ControlCM && (t.Verb <= Write || o.Driver()) {
			o.Polling = true
		}
	}
	if o.Size > cqModSizeLimit && o.Transport != ib.UD && !o.All && !o.Events && !o.cqModSet {
		o.CQMod = 1
	}
	o.CQMod = min(o.CQMod, o.TxDepth)
	if o.PostList > 1 {
		if o.Iters%o.PostList != 0 {
			return getopt.Misuse("-n %d is not a multiple of -l %d", o.Iters, o.PostList)
		}
		if o.PostList > o.TxDepth {
			return getopt.Misuse("-l %d is more than -t %d", o.PostList, o.TxDepth)
		}
		if !o.cqModSet {
			o.CQMod = o.PostList
		} else if o.PostList%o.CQMod != 0 {
			return getopt.Misuse("-l %d is not a multiple of -Q %d", o.PostList, o.CQMod)
		}
	}
	if o.UseSRQ && o.QPs > o.RxDepth {
		return getopt.Misuse("--use-srq with -q %d needs -r %d or more", o.QPs, o.QPs)
	}
	if o.InlineSize < 0 {
		o.InlineSize = 0
	}
	if t.Verb == Send && !t.Latency && !o.Driver() && !o.Bidirectional {
		o.NoPeak = true // only the sender sees when each message left
	}
	return nil
}
