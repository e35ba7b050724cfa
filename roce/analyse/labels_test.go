package analyse_test

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
	"github.com/stretchr/testify/require"
)

func cleanLabels() []label {
	return []label{
		{name: "clean", play: func(d *drawn) truth {
			d.before()
			d.do(d.any(), d.any(), d.any())
			d.after()
			return truth{}
		}},
		{name: "clean, delays vary", play: func(d *drawn) truth {
			// Later packets do not overtake: they are one at a time.
			a, b := d.s.Hosts[0].Addr, d.s.Hosts[1].Addr
			j := time.Duration(1+d.IntN(200)) * time.Microsecond
			d.s.Net.SetFaults(a, b, sim.Faults{Jitter: j})
			d.s.Net.SetFaults(b, a, sim.Faults{Jitter: j})
			for range 3 + d.IntN(20) {
				d.do(d.s.Write(0, 1+d.IntN(d.mtu)))
			}
			return truth{}
		}},
	}
}

// hitOp carries out an operation and something of its own to a packet of it, perhaps with others in
// front and behind.
func (d *drawn) hitOp(w verbs.SendWR, host int, a fault.Action, index, times int, behind ...verbs.SendWR) (x truth) {
	var front []verbs.SendWR
	for range d.IntN(3) {
		front = append(front, d.s.Write(0, d.packets(1, 2)))
	}
	first := d.psn
	for i := range front {
		first = first.Add(d.span(&front[i]))
	}
	x.hit = []ib.PSN{first.Add(index)}
	x.span = [2]ib.PSN{first, first.Add(d.span(&w))}
	for i := range behind {
		x.span[1] = x.span[1].Add(d.span(&behind[i]))
	}
	d.rule(host, a, x.hit[0], times)
	d.do(append(append(front, w), behind...)...)
	return x
}

// lossLabels lose packets.
func lossLabels() []label {
	lost := func(d *drawn, w verbs.SendWR, index int, behind ...verbs.SendWR) truth {
		n := d.span(&w)
		x := d.hitOp(w, 0, fault.Drop, index, 1, behind...)
		shows := index < n-1 || len(behind) > 0
		x.named = at(true, shows, shows, analyse.LostRequest)
		return x
	}
	wrap := func(play func(d *drawn) truth) func(d *drawn) truth {
		return func(d *drawn) truth {
			d.before()
			x := play(d)
			d.after()
			return x
		}
	}
	lostRead := kinds(analyse.LostReadResponse)
	return []label{
		{name: "lost request", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 9))
			return lost(d, w, d.IntN(d.span(&w)))
		})},
		{name: "lost request in the middle", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(3, 9))
			return lost(d, w, 1+d.IntN(d.span(&w)-2))
		})},
		{name: "lost request before others", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 4))
			return lost(d, w, d.IntN(d.span(&w)), d.message(d.packets(1, 4)), d.any())
		})},
		{name: "lost request, twice", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(3, 9))
			x := d.hitOp(w, 0, fault.Drop, d.IntN(d.span(&w)-1), 2)
			x.named = everywhere(analyse.LostRequest)
			return x
		})},
		{name: "lost request, and its NAK", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(3, 9))
			i := d.IntN(d.span(&w) - 1)
			d.s.Hosts[1].Faults.Add(fault.Rule{Action: fault.Drop, QP: d.s.Hosts[1].QP.Num(),
				Opcode: ib.RCAcknowledge, HasOpcode: true, Times: 1})
			first := d.psn
			x := truth{hit: []ib.PSN{first.Add(i)}, span: [2]ib.PSN{first, first.Add(d.span(&w))},
				named: everywhere(analyse.LostRequest), sure: kinds(analyse.LostAck)}
			d.rule(0, fault.Drop, x.hit[0], 1)
			d.do(w)
			return x
		})},
		{name: "lost READ request", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.Read(0, d.packets(1, 9)), 0, fault.Drop, 0, 1)
			x.named = at(true, false, false, analyse.LostReadRequest)
			return x
		})},
		{name: "lost READ request before others", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.Read(0, d.packets(1, 9)), 0, fault.Drop, 0, 1, d.s.Write(0, d.packets(1, 3)))
			x.named = everywhere(analyse.LostReadRequest)
			return x
		})},
		{name: "lost READ response", play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(1, 9))
			x := d.hitOp(w, 1, fault.Drop, d.IntN(d.span(&w)), 1)
			x.named = everywhere(lostRead...)
			return x
		})},
		{name: "lost READ response in the middle", play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(3, 9))
			x := d.hitOp(w, 1, fault.Drop, 1+d.IntN(d.span(&w)-2), 1)
			x.named = everywhere(lostRead...)
			return x
		})},
		{name: "lost READ response before others", play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(1, 5))
			x := d.hitOp(w, 1, fault.Drop, d.IntN(d.span(&w)), 1, d.s.Read(0, d.packets(1, 5)),
				d.s.Write(0, d.packets(1, 2)))
			x.named = everywhere(lostRead...)
			return x
		})},
		{name: "lost ACK", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 9))
			x := d.hitOp(w, 1, fault.Drop, d.span(&w)-1, 1)
			x.named = everywhere(analyse.LostAck)
			return x
		})},
		{name: "lost atomic", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.FetchAdd(0, 1), 0, fault.Drop, 0, 1)
			x.named = at(true, false, false, analyse.LostRequest)
			return x
		})},
		{name: "lost answer to an atomic", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.FetchAdd(0, 1), 1, fault.Drop, 0, 1)
			x.named = everywhere(analyse.LostAtomicAck)
			return x
		})},
		{name: "lost in the receiving host", below: true, play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(3, 9))
			first, i := d.psn, d.IntN(d.span(&w)-1)
			x := truth{hit: []ib.PSN{first.Add(i)}, span: [2]ib.PSN{first, first.Add(d.span(&w))}}
			x.named = [3][]analyse.Kind{
				{analyse.LostRequest}, {analyse.SlowReceiver, analyse.LostRequest}, {analyse.LostRequest},
			}
			d.s.Hosts[1].Faults.Add(fault.Rule{Dir: fault.Receive, Action: fault.Drop, PSN: x.hit[0],
				HasPSN: true, Times: 1, QP: d.s.Hosts[1].QP.Num()})
			d.do(w)
			return x
		})},
		{name: "damaged request", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 9))
			i := d.IntN(d.span(&w))
			x := d.hitOp(w, 0, fault.Corrupt, i, 1)
			// On the host itself it is still good, and the link of the other drops it below its
			// trace.
			shows := i < d.span(&w)-1
			x.named = [3][]analyse.Kind{{analyse.LostRequest}, nil, {analyse.Corrupt}}
			if shows {
				x.named[1] = kinds(analyse.LostRequest)
			}
			return x
		})},
		{name: "damaged READ response", below: true, play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(3, 9))
			x := d.hitOp(w, 1, fault.Corrupt, d.IntN(d.span(&w)-1), 1)
			x.named = [3][]analyse.Kind{lostRead, {analyse.Corrupt}, lostRead}
			return x
		})},
	}
}

// oddLabels do to packets what is no loss.
func oddLabels() []label {
	wrap := func(play func(d *drawn) truth) func(d *drawn) truth {
		return func(d *drawn) truth {
			d.before()
			x := play(d)
			d.do(d.s.Write(0, 1)) // what comes twice has come by then
			d.s.Net.RunFor(10 * time.Millisecond)
			d.after()
			return x
		}
	}
	dup := kinds(analyse.DuplicateRequest, analyse.DuplicateAck)
	return []label{
		{name: "doubled request", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 9))
			x := d.hitOp(w, 0, fault.Duplicate, d.IntN(d.span(&w)), 1)
			x.named, x.sure = at(false, true, true, analyse.DuplicateRequest), dup
			return x
		})},
		{name: "doubled READ request", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.Read(0, d.packets(1, 9)), 0, fault.Duplicate, 0, 1)
			x.named, x.sure = everywhere(analyse.DuplicateRequest), dup
			x.named[0] = nil // goroce answers such a READ only where it has to
			return x
		})},
		{name: "doubled atomic", play: wrap(func(d *drawn) truth {
			x := d.hitOp(d.s.FetchAdd(0, 1), 0, fault.Duplicate, 0, 1)
			x.named, x.sure = everywhere(analyse.DuplicateRequest), dup
			return x
		})},
		{name: "doubled ACK", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(1, 9))
			x := d.hitOp(w, 1, fault.Duplicate, d.span(&w)-1, 1)
			x.named, x.sure = at(true, false, true, analyse.DuplicateAck), dup
			return x
		})},
		{name: "doubled READ response", play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(1, 9))
			x := d.hitOp(w, 1, fault.Duplicate, d.IntN(d.span(&w)), 1)
			x.named, x.sure = at(true, false, true, analyse.DuplicateAck), dup
			return x
		})},
		{name: "overtaken request", play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(4, 9))
			x := d.hitOp(w, 0, fault.Delay, d.IntN(d.span(&w)-3), 1)
			x.named = everywhere(analyse.Reordered)
			return x
		})},
		{name: "overtaken READ response", play: wrap(func(d *drawn) truth {
			w := d.s.Read(0, d.packets(4, 9))
			x := d.hitOp(w, 1, fault.Delay, d.IntN(d.span(&w)-3), 1)
			x.named = everywhere(analyse.Reordered)
			return x
		})},
		{name: "late ACK", cfg: func(d *drawn, c *stage.Config) {
			c.Tuning[0].LossProbe = -1
		}, play: func(d *drawn) truth {
			d.before()
			a, b := d.s.Hosts[0].Addr, d.s.Hosts[1].Addr
			d.s.Net.SetFaults(b, a,
				sim.Faults{Reorder: 1, ReorderDelay: time.Duration(4500+d.IntN(4_500)) * time.Microsecond})
			w := d.message(d.packets(1, 6))
			x := truth{span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))}, named: everywhere(analyse.LateAck)}
			x.hit = []ib.PSN{x.span[0], x.span[1].Prev()}
			d.do(w)
			d.s.Net.SetFaults(b, a, sim.Faults{})
			d.s.Net.RunFor(200 * time.Millisecond)
			d.after()
			return x
		}},
		{name: "late ACK, after the probe", play: func(d *drawn) truth {
			d.before()
			a, b := d.s.Hosts[0].Addr, d.s.Hosts[1].Addr
			d.s.Net.SetFaults(b, a,
				sim.Faults{Reorder: 1, ReorderDelay: time.Duration(1500+d.IntN(5_500)) * time.Microsecond})
			w := d.message(d.packets(1, 6))
			x := truth{span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))}, named: everywhere(analyse.LateAck)}
			x.hit = []ib.PSN{x.span[0], x.span[1].Prev()}
			var probes [2]uint64
			probes[0] = d.s.Hosts[1].Device.Counters().DuplicateRequest
			d.do(w)
			d.s.Net.SetFaults(b, a, sim.Faults{})
			d.s.Net.RunFor(200 * time.Millisecond)
			if probes[1] = d.s.Hosts[1].Device.Counters().DuplicateRequest; probes[0] == probes[1] {
				x.named = [3][]analyse.Kind{} // it came in time
			}
			d.after()
			return x
		}},
		{name: "marked packet, CNP", cfg: func(_ *drawn, c *stage.Config) {
			for i := range c.Tuning {
				c.Tuning[i].Congestion = cc.Config{Algorithm: cc.DCQCNPaper}
			}
		}, play: wrap(func(d *drawn) truth {
			w := d.message(d.packets(2, 9))
			i := d.IntN(d.span(&w))
			x := truth{hit: []ib.PSN{d.psn.Add(i)}, span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))},
				sure: kinds(analyse.CEMarked, analyse.RateCut)}
			x.named = [3][]analyse.Kind{{analyse.RateCut}, {analyse.CEMarked}, {analyse.RateCut}}
			d.s.Hosts[1].Faults.Add(fault.Rule{Dir: fault.Receive, Action: fault.MarkCE, PSN: x.hit[0],
				HasPSN: true, Times: 1, QP: d.s.Hosts[1].QP.Num()})
			d.do(w)
			return x
		})},
	}
}

// unreliableLabels lose packets of UC and UD.
func unreliableLabels() []label {
	return []label{
		{name: "lost on UC", cfg: func(_ *drawn, c *stage.Config) { c.Type = ib.UC }, play: func(d *drawn) truth {
			for range 1 + d.IntN(5) {
				d.do(d.s.Write(0, d.packets(1, 5)))
			}
			w := d.s.Write(0, d.packets(1, 6))
			x := truth{hit: []ib.PSN{d.psn.Add(d.IntN(d.span(&w)))},
				span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))}, named: at(false, true, true, analyse.UCLost)}
			d.rule(0, fault.Drop, x.hit[0], 1)
			d.do(w)
			for range 1 + d.IntN(3) {
				d.do(d.s.Write(0, d.packets(1, 5)))
			}
			d.s.Net.RunFor(10 * time.Millisecond)
			return x
		}},
		{name: "lost on UD", cfg: func(_ *drawn, c *stage.Config) { c.Type = ib.UD }, play: func(d *drawn) truth {
			n := 6 + d.IntN(10)
			require.NoError(d.t, d.s.Recv(1, n, 4096))
			ah, err := d.s.Hosts[0].PD.CreateAHTo(ib.GIDFromAddr(d.s.Hosts[1].Addr))
			require.NoError(d.t, err)
			lost := 4 + d.IntN(n-5)
			for i := range n {
				if i == lost {
					d.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, Times: 1})
				}
				w := d.s.Send(0, 1+d.IntN(200))
				w.AH, w.RemoteQPN, w.RemoteQKey = ah, d.s.Hosts[1].QP.Num(), stage.QKey
				d.do(w)
			}
			d.s.Net.RunFor(10 * time.Millisecond)
			return truth{named: at(false, true, true, analyse.UDLost)}
		}},
	}
}
