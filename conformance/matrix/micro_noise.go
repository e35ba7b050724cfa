package matrix

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// Noisy neighbours: queue pairs that lose packets, beside one that loses none.

const (
	// noisyQPs is how many queue pairs make noise.
	noisyQPs = 4
	// noiseSize is the length of one of their WRITEs; noiseBatch of them are on their way at a
	// time.
	noiseSize  = 64 << 10
	noiseBatch = 2
	// noiseOff is where in the arenas the noise is.
	noiseOff = arenaSize / 2
	// lossEvery is how many packets of the noise there are for each that is lost.
	lossEvery = 50
	// victimBulk is the length of the WRITEs whose goodput is measured.
	victimBulk = 64 << 10
)

// noisyNeighbour measures, for one queue pair that loses nothing, the time of short WRITEs and the
// goodput of long ones, while others are busy: first without a loss, then with losses of theirs,
// and once more each.
func noisyNeighbour(x *trial, f *findings) {
	f.numbers["noisy_qps"], f.numbers["loss_percent"] = noisyQPs, 100.0/lossEvery
	var neighbours []*neighbour
	for range noisyQPs {
		par := x.params
		par.timeout = calmTimeout // a peer that has no CPU for a while must not cost the connection
		c := peer.Got(x.connect(par))
		defer c.close()
		neighbours = append(neighbours, &neighbour{conn: c})
	}
	x.keep(x.conn) // the victim's packets explain a failure
	lost := 0
	for _, loss := range []bool{false, true, false, true} {
		var rules []*ether.Rule
		for _, n := range neighbours {
			if loss {
				rules = append(rules, x.rule(n.lossRule()))
			}
		}
		what := "victim_beside_quiet"
		if loss {
			what = "victim_beside_lossy"
		}
		x.besides(neighbours, f, what)
		x.env.Wire.Remove(rules...)
		for _, r := range rules {
			lost += r.Hits()
		}
	}
	f.numbers["packets_lost"] = float64(lost)
	for _, n := range neighbours {
		n.drain()
	}
}

// besides measures the victim while the neighbours are kept busy.
func (x *trial) besides(neighbours []*neighbour, f *findings, what string) {
	for range x.env.microTimes() {
		for _, size := range []int{microMessage, victimBulk} {
			for _, n := range neighbours {
				n.keepBusy()
			}
			begin, psn := len(x.tr.Events()), x.psn
			x.post(peer.OpWrite, 1, size)
			x.advance(size)
			x.sent(1)
			d, ok := x.answered(x.tr.Events()[begin:], psn, (x.psn-1)&psnMask)
			switch {
			case !ok:
				peer.Must(fmt.Errorf("the ACK of a WRITE of %d bytes was not seen", size))
			case size == microMessage:
				f.time(what, d)
			default:
				f.sample(what, "MBps", float64(size)/float64(d)*float64(time.Second)/1e6)
			}
		}
	}
}

// neighbour is one of the others.
type neighbour struct {
	*conn
	busy bool
}

// lossRule loses one of many of its requests.
func (n *neighbour) lossRule() *ether.Rule {
	seen := 0
	return &ether.Rule{Kind: ether.Drop, Times: -1, Match: ether.Match{From: n.req.p.PortName(),
		Dst: n.rsp.p.Addr(n.family), QPN: n.sq.QPN(), AnyPSN: true,
		Func: func(*ether.Packet) bool { seen++; return seen%lossEvery == 0 }}}
}

// keepBusy posts WRITEs if those before are done.
func (n *neighbour) keepBusy() {
	if n.busy {
		wc := peer.Got(n.rq.PollSend(1, 0))
		if len(wc) == 0 {
			return
		}
		if wc[0].Status != peer.Success {
			peer.Must(fmt.Errorf("a neighbour: %w", statusError{wc[0]}))
		}
	}
	n.busy = true
	for i := range noiseBatch {
		wr := peer.SendWR{Op: peer.OpWrite, SGL: sgl(n.req.arena, noiseOff, noiseSize),
			RemoteAddr: n.rsp.arena.Addr() + noiseOff, RKey: n.rsp.arena.RKey()}
		if i == noiseBatch-1 {
			wr.Flags = peer.FlagSignaled
		}
		peer.Must(n.rq.PostSend(wr))
	}
}

// drain waits for what is on its way.
func (n *neighbour) drain() {
	if n.busy {
		n.busy = false
		peer.Got(await(n.rq.PollSend, 0, "a neighbour"))
	}
}
