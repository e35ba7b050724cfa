package analyse_test

import (
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// chaosLabels have faults drawn for each packet. What happened follows from what either host sent
// and got: whatever is certain has to agree with that.
func chaosLabels() []label {
	chaos := func(there, back func(d *drawn) sim.Faults) func(d *drawn) truth {
		return func(d *drawn) truth {
			a, b := d.s.Hosts[0].Addr, d.s.Hosts[1].Addr
			d.before()
			d.s.Net.SetFaults(a, b, there(d))
			d.s.Net.SetFaults(b, a, back(d))
			for range 4 + d.IntN(20) {
				ws := []verbs.SendWR{d.any()}
				for range d.IntN(3) {
					ws = append(ws, d.any())
				}
				wcs, err := d.s.Do(0, ws...)
				require.NoError(d.t, err)
				if wcs[0].Status != verbs.WCSuccess {
					break
				}
			}
			d.s.Net.SetFaults(a, b, sim.Faults{})
			d.s.Net.SetFaults(b, a, sim.Faults{})
			d.s.Net.RunFor(50 * time.Millisecond)
			return truth{check: func() func(f *analyse.Finding) bool { return agrees(d.s) }}
		}
	}
	none := func(*drawn) sim.Faults { return sim.Faults{} }
	loss := func(d *drawn) sim.Faults { return sim.Faults{Loss: 0.01 + 0.06*d.Float64()} }
	patient := func(_ *drawn, c *stage.Config) {
		c.Attr = func(_ int, a *verbs.ConnAttr) { a.RetryCnt, a.RNRRetry, a.Timeout = 7, 7, 11 }
	}
	return []label{
		{many: true, name: "random losses of requests", cfg: patient, play: chaos(loss, none)},
		{many: true, name: "random losses of answers", cfg: patient, play: chaos(none, loss)},
		{many: true, name: "random losses both ways", cfg: patient, play: chaos(loss, loss)},
		{many: true, name: "random delays both ways", cfg: patient, play: chaos(func(d *drawn) sim.Faults {
			return sim.Faults{Reorder: 0.01 + 0.05*d.Float64(),
				ReorderDelay: time.Duration(1+d.IntN(500)) * time.Microsecond}
		}, func(d *drawn) sim.Faults {
			return sim.Faults{Reorder: 0.01 + 0.05*d.Float64(),
				ReorderDelay: time.Duration(1+d.IntN(500)) * time.Microsecond}
		})},
		{many: true, name: "random losses and delays", cfg: patient, play: chaos(func(d *drawn) sim.Faults {
			return sim.Faults{Loss: 0.03, Reorder: 0.03, ReorderDelay: time.Duration(1+d.IntN(300)) * time.Microsecond}
		}, loss)},
		{many: true, name: "random doubles", cfg: patient,
			play: chaos(func(*drawn) sim.Faults { return sim.Faults{Duplicate: 0.05} },
				func(*drawn) sim.Faults { return sim.Faults{Duplicate: 0.05} })},
	}
}

// flowOf is the packets of one host with a PSN.
type flowOf struct {
	src netip.Addr
	qpn ib.QPN
	psn ib.PSN
}

// agrees returns whether a certain finding agrees with what either host sent and got.
func agrees(s *stage.Stage) func(f *analyse.Finding) bool {
	sent, got := map[flowOf]int{}, map[flowOf]int{} // of the responses to READs, too: they have PSNs of their own
	late := map[flowOf]bool{}                       // something that was sent later came before it
	for i, v := range []stage.View{stage.At0, stage.At1} {
		self := s.Hosts[i].Addr
		_ = s.Packets(v, func(p *pcap.Packet) {
			k := flowOf{p.Flow.Src, p.DestQP, p.PSN}
			if p.Flow.Src == self {
				sent[k]++
				return
			}
			got[k]++
		})
	}
	// Order: the position of each packet among those that were sent, and the highest that came
	// before it.
	for i := range 2 {
		pos := map[flowOf][]int{}
		n := 0
		_ = s.Packets([]stage.View{stage.At0, stage.At1}[i], func(p *pcap.Packet) {
			if p.Flow.Src == s.Hosts[i].Addr {
				n++
				k := flowOf{p.Flow.Src, p.DestQP, p.PSN}
				pos[k] = append(pos[k], n)
			}
		})
		highest := 0
		_ = s.Packets([]stage.View{stage.At1, stage.At0}[i], func(p *pcap.Packet) {
			if p.Flow.Src != s.Hosts[i].Addr {
				return
			}
			k := flowOf{p.Flow.Src, p.DestQP, p.PSN}
			if all := pos[k]; len(all) > 0 {
				if all[0] < highest {
					late[k] = true
				}
				highest = max(highest, all[0])
			}
		})
	}
	return func(f *analyse.Finding) bool {
		to := s.Hosts[0].Addr
		if f.QPN == s.Hosts[0].QP.Num() {
			to = s.Hosts[1].Addr
		}
		k := flowOf{to, f.QPN, f.PSN}
		switch f.Kind {
		case analyse.LostRequest, analyse.LostReadRequest, analyse.LostReadResponse, analyse.LostAck,
			analyse.LostAtomicAck:
			return sent[k] > got[k]
		case analyse.DuplicateRequest, analyse.DuplicateAck:
			return got[k] > sent[k]
		case analyse.Reordered:
			return late[k]
		case analyse.LateAck:
			return sent[k] == got[k]
		}
		return true
	}
}
