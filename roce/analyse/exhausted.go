package analyse

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Exhausted is a request whose retries ran out, and what was seen meanwhile. If the capture was
// taken in the network between the two hosts, it tells whether either of them was not running: it
// has the packets of both, however they treat what reaches them.
type Exhausted struct {
	Requester, Responder netip.Addr
	QPN                  ib.QPN // of the responder
	PSN                  ib.PSN
	Times                int // how often it was sent
	// FirstNs and LastNs are the times of the first and last transmission. RetryNs is the time of
	// the first one that followed a whole timeout without an answer: earlier repetitions were
	// probes.
	FirstNs, RetryNs, LastNs int64
	// Answered is whether the responder acknowledged the request, or a later one, before LastNs.
	// The requester did not act on that.
	Answered bool
	// LateNs is when the responder first answered it, if that was a whole timeout or more after
	// LastNs: the request was not lost, but the responder was busy with earlier ones. It is 0 if no
	// answer came, or if one came so soon that the requester could have waited for it.
	LateNs int64
	// Deaf is whether the responder, between RetryNs and LastNs, repeated a request of its own that
	// the requester had acknowledged: it did not process the packets that reached it.
	Deaf bool
}

const (
	// trainLength is how often a request must have been sent for retries to have run out.
	trainLength = 3
	// ackWindow is how many packets before the one that an ACK names are taken for acknowledged by
	// it: there may be other queue pairs, with other PSNs.
	ackWindow = 512
)

// recall remembers the last packets of RC, without their contents.
type recall struct {
	last []glimpse // up to twice as many as Options.Recall
}

// glimpse is what is remembered of a packet.
type glimpse struct {
	at       int64
	src, dst netip.Addr
	qpn      ib.QPN
	psn      ib.PSN
	request  bool
	// confirms is set if the packet tells a requester that what has its PSN, and all before, has
	// arrived.
	confirms bool
}

// recall takes a packet. What is damaged reaches nobody.
func (a *Analyser) recall(p *pcap.Packet) {
	info := p.Opcode.Info()
	if a.opt.Recall <= 0 || info.Transport != ib.RC || p.ICRC == pcap.ICRCWrong {
		return
	}
	r := &a.recalled
	if len(r.last) >= 2*a.opt.Recall {
		r.last = r.last[:copy(r.last, r.last[a.opt.Recall:])]
	}
	g := glimpse{at: p.AtNs, src: p.Flow.Src, dst: p.Flow.Dst, qpn: p.DestQP, psn: p.PSN, request: !info.Response}
	g.confirms = info.Response && (info.Headers&ib.HasAETH == 0 || p.AETH.Syndrome.Kind() == ib.SyndromeACK)
	r.last = append(r.last, g)
}

// Exhausted returns the request whose retries ran out at one of hosts, each of which has reported
// that. It considers the last Options.Recall packets, and returns nil if no request of these hosts
// was being repeated at the end. If several hosts have one, it returns the one that ended first: a
// host that gives up leaves the others without an answer.
func (r *Report) Exhausted(hosts ...netip.Addr) *Exhausted {
	var t *train
	for _, h := range hosts {
		if x := r.recalled.lastTrain(h); x != nil && (t == nil || x.last() < t.last()) {
			t = x
		}
	}
	if t == nil {
		return nil
	}
	x := &Exhausted{Requester: t.src, Responder: t.dst, QPN: t.qpn, PSN: t.psn, Times: len(t.at),
		FirstNs: t.at[0], RetryNs: t.retry(), LastNs: t.last()}
	x.Answered = slices.ContainsFunc(r.recalled.last, func(g glimpse) bool {
		return g.confirms && g.src == x.Responder && g.dst == x.Requester && g.at > x.FirstNs &&
			g.at < x.LastNs && g.psn.Diff(x.PSN) >= 0
	})
	x.LateNs = r.recalled.late(x, t.timeout())
	x.Deaf = r.recalled.deaf(x)
	return x
}

// trainKey names a request packet.
type trainKey struct {
	src, dst netip.Addr
	qpn      ib.QPN
	psn      ib.PSN
}

// train is a request packet as often as it was sent.
type train struct {
	trainKey
	at []int64
}

func (t *train) last() int64 { return t.at[len(t.at)-1] }

// waits are the times between two transmissions.
func (t *train) waits() []int64 {
	waits := make([]int64, len(t.at)-1)
	for i := range waits {
		waits[i] = t.at[i+1] - t.at[i]
	}
	return waits
}

// timeout is the requester's, by what it did: where there are some retries most of the waits are
// timeouts.
func (t *train) timeout() int64 {
	sorted := slices.Sorted(slices.Values(t.waits()))
	return sorted[(len(sorted)-1)/2]
}

// retry is when the request was sent again for the first time after a timeout; a probe comes after
// less than half of one.
func (t *train) retry() int64 {
	least := t.timeout() / 2
	return t.at[1+slices.IndexFunc(t.waits(), func(w int64) bool { return w >= least })]
}

// lastTrain returns the oldest packet among those that a requester sent again and again at the end.
func (r *recall) lastTrain(src netip.Addr) (last *train) {
	trains := map[trainKey]*train{}
	for _, g := range r.last {
		if !g.request || g.src != src {
			continue
		}
		k := trainKey{g.src, g.dst, g.qpn, g.psn}
		t := trains[k]
		if t == nil {
			t = &train{trainKey: k}
			trains[k] = t
		}
		t.at = append(t.at, g.at)
	}
	for _, t := range trains {
		if len(t.at) >= trainLength && (last == nil || t.last() > last.last()) {
			last = t
		}
	}
	if last == nil {
		return nil
	}
	// Those of the same queue pair that were in the last round, too, and come before it.
	round := last.at[len(last.at)-2]
	for _, t := range trains {
		if len(t.at) >= trainLength && t.dst == last.dst && t.qpn == last.qpn && t.last() > round &&
			t.psn.Diff(last.psn) < 0 {
			last = t
		}
	}
	return last
}

// late is Exhausted.LateNs.
func (r *recall) late(x *Exhausted, timeoutNs int64) int64 {
	for _, g := range r.last {
		if d := g.psn.Diff(x.PSN); g.confirms && g.src == x.Responder && g.dst == x.Requester &&
			g.at > x.FirstNs && d >= 0 && d < ackWindow {
			if g.at-x.LastNs < timeoutNs {
				return 0
			}
			return g.at
		}
	}
	return 0
}

// deaf is Exhausted.Deaf.
func (r *recall) deaf(x *Exhausted) bool {
	type packet struct {
		qpn ib.QPN
		psn ib.PSN
	}
	sent := map[packet]bool{}      // by the responder
	confirmed := map[packet]bool{} // and seen acknowledged
	for _, g := range r.last {
		switch {
		case g.src == x.Responder && g.request:
			p := packet{g.qpn, g.psn}
			if confirmed[p] && g.at > x.RetryNs && g.at < x.LastNs {
				return true
			}
			sent[p] = true
		case g.dst == x.Responder && g.confirms && g.qpn == x.QPN:
			for p := range sent {
				if d := g.psn.Diff(p.psn); d >= 0 && d < ackWindow {
					confirmed[p] = true
					delete(sent, p)
				}
			}
		}
	}
	return false
}
