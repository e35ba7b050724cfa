package verbs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
)

// A lone loss is one of the last packet, which nothing that follows shows.
type loneLoss struct {
	name    string
	op      WROpcode
	size    int
	lost    ib.Opcode
	receive bool // it is an answer
}

var loneLosses = []loneLoss{
	{"WRITE of 64 bytes", WRWrite, 64, ib.RCWriteOnly, false},
	{"its ACK", WRWrite, 64, ib.RCAcknowledge, true},
	{"last packet of a SEND of 64 KiB", WRSend, 65536, ib.RCSendLast, false},
	{"SEND of 64 bytes", WRSend, 64, ib.RCSendOnly, false},
	{"READ request", WRRead, 65536, ib.RCReadRequest, false},
	{"last READ response", WRRead, 65536, ib.RCReadRespLast, true},
	{"atomic request", WRFetchAdd, 8, ib.RCFetchAdd, false},
	{"atomic response", WRFetchAdd, 8, ib.RCAtomicAck, true},
}

// loneLossRig is a pair of devices that has done each operation, so that it knows the round trip.
type loneLossRig struct {
	t      *testing.T
	a, b   *end
	faults *fault.Link
	now    func() int64
}

// do runs one operation and returns how long it took, ns.
func (r *loneLossRig) do(x *loneLoss) int64 {
	r.t.Helper()
	ctx := testContext(r.t)
	if x.op == WRSend {
		require.NoError(r.t, r.b.qp.PostRecv(&RecvWR{SGList: []SGE{r.b.mr.SGE(0, x.size)}}))
	}
	begin := r.now()
	require.NoError(r.t, r.a.qp.PostSend(&SendWR{
		Opcode: x.op, Flags: SendSignaled, SGList: []SGE{r.a.mr.SGE(0, x.size)}, RemoteAddr: r.b.mr.Addr(),
		RKey: r.b.mr.RKey(),
	}))
	r.a.wait(r.t, ctx)
	ns := r.now() - begin
	if x.op == WRSend {
		r.b.wait(r.t, ctx)
	}
	return ns
}

// loses runs x with its loss, after eight without.
func (r *loneLossRig) loses(x *loneLoss) int64 {
	r.t.Helper()
	for range 8 {
		r.do(x)
	}
	return r.losesFirst(x)
}

// losesFirst runs x with its loss.
func (r *loneLossRig) losesFirst(x *loneLoss) int64 {
	r.t.Helper()
	dir := fault.Send
	if x.receive {
		dir = fault.Receive
	}
	rule := r.faults.Add(fault.Rule{Dir: dir, Opcode: x.lost, HasOpcode: true, Times: 1, Action: fault.Drop})
	ns := r.do(x)
	require.EqualValues(r.t, 1, r.faults.Hits(rule), x.name)
	return ns
}

func newLoneLossRig(t *testing.T, ns int64, open func(i int, cfg Config) *Device, now func(a *end) int64) *loneLossRig {
	r := &loneLossRig{t: t}
	var ends [2]*end
	for i := range ends {
		cfg := Config{Tuning: wholeWindow}
		cfg.Tuning.LossProbe = time.Duration(ns)
		if i == 0 {
			cfg.WrapLink = func(l link.Link) (link.Link, error) {
				r.faults = fault.New(l)
				return r.faults, nil
			}
		}
		ends[i] = newEnd(t, open(i, cfg), 1<<16, QPInitAttr{})
	}
	connect(t, ends[0], ends[1])
	r.a, r.b = ends[0], ends[1]
	r.now = func() int64 { return now(r.a) }
	return r
}

// In virtual time, to the nanosecond: without probes a lone loss costs the ACK timeout
// of 67 ms, with them the wait of 1 ms. With -v a table.
func TestLoneLoss(t *testing.T) {
	for _, x := range loneLosses {
		var took [2]int64
		for i, ns := range []int64{-1, 0} {
			f := sim.New(sim.Config{Seed: 1})
			r := newLoneLossRig(t, ns, func(i int, cfg Config) *Device {
				l, err := f.Link(simAddr(i + 1))
				require.NoError(t, err)
				cfg.Link, cfg.Rand = l, f.Rand()
				return openDevice(t, cfg)
			}, func(*end) int64 { return f.Now() })
			took[i] = r.loses(&x)
			c := r.a.d.Counters()
			require.EqualValues(t, 1-i, c.Timeouts, x.name)
			require.EqualValues(t, i, c.LossProbes, x.name)
		}
		require.Greater(t, took[0], int64(67e6), x.name)
		require.Greater(t, took[1], int64(1e6), x.name)
		require.Less(t, took[1], int64(1.1e6), x.name)
		t.Logf("| %s | %.2f ms | %.2f ms |", x.name, float64(took[0])/1e6, float64(took[1])/1e6)
	}
}

// The same for the first operation of a queue pair, whose round trip nobody knows: a quarter of the
// ACK timeout.
func TestLoneLossFirst(t *testing.T) {
	for _, x := range loneLosses {
		if x.lost == ib.RCReadRespLast {
			continue // the responses before it tell the round trip
		}
		var took [2]int64
		for i, ns := range []int64{-1, 0} {
			f := sim.New(sim.Config{Seed: 1})
			r := newLoneLossRig(t, ns, func(i int, cfg Config) *Device {
				l, err := f.Link(simAddr(i + 1))
				require.NoError(t, err)
				cfg.Link, cfg.Rand = l, f.Rand()
				return openDevice(t, cfg)
			}, func(*end) int64 { return f.Now() })
			took[i] = r.losesFirst(&x)
			require.EqualValues(t, i, r.a.d.Counters().LossProbes, x.name)
		}
		require.Greater(t, took[0], int64(67e6), x.name)
		require.Greater(t, took[1], int64(16.7e6), x.name)
		require.Less(t, took[1], int64(17e6), x.name)
		t.Logf("| first %s | %.2f ms | %.2f ms |", x.name, float64(took[0])/1e6, float64(took[1])/1e6)
	}
}

// The same over sockets, in real time: it says how long it took, medians, and checks
// only that everything completes.
func TestLoneLossUDP(t *testing.T) {
	seeds.Slow(t)
	const rounds = 9
	for _, x := range loneLosses {
		line := fmt.Sprintf("| %s |", x.name)
		for _, ns := range []int64{-1, 0} {
			r := newLoneLossRig(t, ns, func(i int, cfg Config) *Device { return openDevice(t, cfg) },
				func(*end) int64 { return time.Now().UnixNano() })
			var all []int64
			for range rounds {
				all = append(all, r.loses(&x))
			}
			slices.Sort(all)
			line += fmt.Sprintf(" %.2f ms |", float64(all[len(all)/2])/1e6)
		}
		t.Log(line)
	}
}
