package verbs

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/stretchr/testify/require"
)

// wrapped opens two connected devices on a fabric; wrap goes around the link of the first.
func wrapped(t testing.TB, f *sim.Fabric, wrap func(link.Link) (link.Link, error), bufBytes int,
	psn ...ib.PSN) (a, b *end) {
	la, err := f.Link(simAddr(1))
	require.NoError(t, err)
	lb, err := f.Link(simAddr(2))
	require.NoError(t, err)
	a = newEnd(t, openDevice(t, Config{Link: la, Rand: f.Rand(), WrapLink: wrap, Tuning: wholeWindow}),
		bufBytes, QPInitAttr{})
	b = newEnd(t, openDevice(t, Config{Link: lb, Rand: f.Rand()}), bufBytes, QPInitAttr{})
	for _, p := range psn {
		a.qp.SetPSN(p)
	}
	connect(t, a, b)
	return a, b
}

func write(t testing.TB, a, b *end, n int) {
	b.see() // orders what the test has read before what the device writes now
	fill(a.buf[:n], uint64(n))
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	require.Equal(t, WCWrite, a.wait(t, testContext(t)).Opcode)
	b.see()
	require.Equal(t, a.buf[:n], b.buf[:n])
}

// Each fault on one chosen packet is repaired, and shows in the counters that it should show in.
func TestFaultByPSN(t *testing.T) {
	const psn = 0xFFFFFE // the transfer crosses the wrap
	second := fault.Rule{PSN: 0, HasPSN: true, Iteration: 1}
	with := func(r fault.Rule, change func(*fault.Rule)) fault.Rule { change(&r); return r }
	cases := []struct {
		name  string
		rule  fault.Rule
		check func(t *testing.T, a, b Counters)
	}{
		{"drop", with(second, func(r *fault.Rule) { r.Action = fault.Drop }), func(t *testing.T, a, b Counters) {
			require.EqualValues(t, 1, a.RcvdSeqErr)
			require.NotZero(t, b.OutOfSeqRequest)
		}},
		{"corrupt", with(second, func(r *fault.Rule) { r.Action = fault.Corrupt }), func(t *testing.T, a, b Counters) {
			require.EqualValues(t, 1, b.DropICRC)
			require.EqualValues(t, 1, a.RcvdSeqErr)
		}},
		{"duplicate", with(second, func(r *fault.Rule) { r.Action = fault.Duplicate }),
			func(t *testing.T, a, b Counters) {
				require.EqualValues(t, 1, b.DuplicateRequest)
				require.Zero(t, a.RetransmittedPkts)
			}},
		{"delay", with(second, func(r *fault.Rule) { r.Action, r.Hold = fault.Delay, 2 }),
			func(t *testing.T, a, b Counters) {
				require.NotZero(t, b.OutOfSeqRequest)
			}},
		{"drop acks",
			fault.Rule{Dir: fault.Receive, Opcode: ib.RCAcknowledge, HasOpcode: true, Times: 1, Action: fault.Drop},
			func(t *testing.T, a, b Counters) { require.NotZero(t, a.LossProbes) }},
		{"mark", fault.Rule{Dir: fault.Receive, Action: fault.MarkCE}, func(t *testing.T, a, b Counters) {
			require.NotZero(t, a.CEMarkedPkts)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := sim.New(sim.Config{Seed: 1})
			var fl *fault.Link
			a, b := wrapped(t, f, func(l link.Link) (link.Link, error) {
				fl = fault.New(l, c.rule)
				return fl, nil
			}, 1<<16, psn)
			write(t, a, b, 40_000)
			require.NotZero(t, fl.Hits(0))
			c.check(t, a.d.Counters(), b.d.Counters())
		})
	}
}

func TestFaultMutate(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := wrapped(t, f, func(l link.Link) (link.Link, error) {
		return fault.New(l, fault.Rule{
			Dir: fault.Receive, Opcode: ib.RCAcknowledge, HasOpcode: true, Action: fault.Mutate,
			Mutate: func(p *ib.Packet, _ []byte) { p.AETH.Syndrome = ib.NAKRemoteAccess },
		}), nil
	}, 4096)
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(),
		RKey: b.mr.RKey(),
	}))
	var wcs [1]WC
	_, err := a.cq.Wait(testContext(t), wcs[:])
	require.NoError(t, err)
	require.Equal(t, WCRemoteAccessErr, wcs[0].Status)
}

// The trace holds every packet of both directions, and an independent decoder
// and the ICRC agree with it.
func TestTrace(t *testing.T) {
	var file bytes.Buffer
	var tl *trace.Link
	f := sim.New(sim.Config{Seed: 1})
	a, b := wrapped(t, f, func(l link.Link) (link.Link, error) {
		var err error
		tl, err = trace.New(l, &file)
		return tl, err
	}, 1<<16)
	exercise(t, a, b, []int{0, 1, 4096, 65536})
	require.NoError(t, tl.Err())
	s := tl.Stats()
	require.Equal(t, s.TxPackets+s.RxPackets, tl.Packets())

	r, err := capture.NewReader(&file)
	require.NoError(t, err)
	var n uint64
	for {
		p, _, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.NoError(t, p.Err)
		require.ElementsMatch(t, []netip.Addr{simAddr(1), simAddr(2)}, []netip.Addr{p.Flow.Src, p.Flow.Dst})
		c := ib.NewICRC(p.Flow)
		require.Equal(t, ib.TrailingICRC(p.Payload), c.Checksum(p.Ident, p.Payload[:len(p.Payload)-4]))
		n++
	}
	require.Equal(t, tl.Packets(), n)
}

// tshark finds every operation in a trace of real traffic, and nothing malformed.
func TestTraceTshark(t *testing.T) {
	if testing.Short() {
		t.Skip("short: tshark takes a second to begin")
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	for _, v6 := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "trace.pcapng")
		file, err := os.Create(name)
		require.NoError(t, err)
		cfg := Config{WrapLink: func(l link.Link) (link.Link, error) { return trace.New(l, file) }}
		var a, b *end
		if v6 {
			a, b = loopback6Pair(t, 1<<16, cfg)
		} else {
			a = newEnd(t, openDevice(t, cfg), 1<<16, QPInitAttr{})
			b = newEnd(t, openDevice(t, Config{}), 1<<16, QPInitAttr{})
			connect(t, a, b)
		}
		exercise(t, a, b, []int{1, 20_000})
		require.NoError(t, a.d.Close())
		require.NoError(t, file.Close())
		out, err := exec.Command(tshark, "-r", name, "-T", "fields",
			"-e", "infiniband.bth.opcode", "-e", "frame.protocols", "-e", "_ws.malformed").Output()
		require.NoError(t, err)
		seen := make(map[string]bool)
		for line := range strings.Lines(string(out)) {
			col := strings.Split(strings.TrimRight(line, "\n"), "\t")
			require.Len(t, col, 3)
			if !capture.Guessed(col[1]) {
				require.Empty(t, col[2], "%v", col)
			}
			require.Contains(t, col[1], ":udp:infiniband")
			seen[col[0]] = true
		}
		for _, op := range []ib.Opcode{
			ib.RCSendOnlyImm, ib.RCSendFirst, ib.RCSendLastImm, ib.RCWriteOnly, ib.RCReadRequest,
			ib.RCReadRespFirst, ib.RCReadRespLast, ib.RCAcknowledge, ib.RCFetchAdd, ib.RCCompareSwap, ib.RCAtomicAck,
		} {
			require.True(t, seen[itoa(int(op))], "%v is not in the trace", op)
		}
	}
}
