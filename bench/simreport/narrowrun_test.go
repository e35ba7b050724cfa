package simreport

import (
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// Narrow is one connection over a slow path with a short queue, with messages of 64 KiB always
// queued, and nothing but its window to bound it.
type Narrow struct {
	Rate    int64         // bits a second; 0 is 200 Mb/s
	RTT     time.Duration // 0 is 1 ms
	Queue   int           // packets; 0 is 100
	Loss    float64
	Reorder float64 // overtaken by three
	Window  int     // packets; 0 is 1,024
	GoBackN bool
	Op      verbs.WROpcode
	For     time.Duration
	Seed    uint64
}

// NarrowResult is what a run showed.
type NarrowResult struct {
	Mbps                               float64
	Overflowed, Lost                   uint64
	Resent, Selective, Spurious, Backs uint64
	Timeouts, Probes                   uint64
}

// RunNarrow plays it.
func RunNarrow(s *Narrow) (*NarrowResult, error) {
	if s.Rate == 0 {
		s.Rate = 200e6
	}
	if s.RTT == 0 {
		s.RTT = time.Millisecond
	}
	if s.Queue == 0 {
		s.Queue = 100
	}
	if s.Window == 0 {
		s.Window = 1024
	}
	fast := sim.Pipe{BitsPerSecond: 8e9, Latency: s.RTT / 4}
	slow := sim.Pipe{BitsPerSecond: s.Rate, Latency: s.RTT / 4, QueueBytes: s.Queue * wireBytes}
	f := sim.New(sim.Config{Seed: s.Seed, Up: fast, Down: slow, MTU: pathMTU})
	var dev [2]*verbs.Device
	for i := range dev {
		l, err := f.Link(hostAddr(i))
		if err != nil {
			return nil, err
		}
		dev[i], err = verbs.Open(verbs.Config{Link: l, Rand: f.Rand(), Tuning: transport.Tuning{
			MaxUnackedPackets: s.Window, GoBackN: s.GoBackN, Congestion: cc.Config{Algorithm: cc.None}}})
		if err != nil {
			return nil, err
		}
		defer dev[i].Close()
	}
	packet := time.Duration(float64(wireBytes) * 8e9 / float64(s.Rate))
	h, err := (&Lossy{Window: s.Window, Op: s.Op, bytes: 65536}).pairOf(dev)
	if err != nil {
		return nil, err
	}
	h.queue = 128
	x := sim.Faults{Loss: s.Loss, Reorder: s.Reorder, ReorderDelay: 3*packet + packet/2}
	f.SetFaults(hostAddr(0), hostAddr(1), x)
	f.SetFaults(hostAddr(1), hostAddr(0), x)
	for now := int64(0); now < int64(s.For); now = f.Now() {
		if err := h.work(now); err != nil {
			return nil, err
		}
		f.RunFor(100 * time.Microsecond)
	}
	res := &NarrowResult{Mbps: float64(h.delivered) * 8e3 / float64(s.For)}
	st := f.Stats()
	res.Overflowed, res.Lost = st.Overflowed, st.Lost
	for _, d := range dev {
		c := d.Counters()
		res.Resent += c.RetransmittedPkts
		res.Selective += c.SelectiveRepeats
		res.Spurious += c.SpuriousRepeats
		res.Backs += c.CompleterRetryErr
		res.Timeouts += c.Timeouts
		res.Probes += c.LossProbes
	}
	return res, nil
}
