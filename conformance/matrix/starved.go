package matrix

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/wire"
)

// Retries that run out on a wire that loses nothing are somebody's fault. An emulated guest on
// a busy machine may stand still for longer than they last, which says nothing about
// the two implementations; a stall of this module's would look the same in what the
// programs print. What the wire has seen tells them apart.

const (
	// starvedTries is how often a row is run that a busy machine was too slow for.
	starvedTries = 3
	// maxStarved is how often the guest of a kernel may stand still for the rows of a link.
	// There are about 3,400 rows each; in a run of all of them it usually does not. A machine
	// that takes more from them is too busy for their results to mean much, and a stall that
	// only looks like its doing does not go unnoticed for long.
	maxStarved = 5
	// oneStall is how far apart the ends of tries may be that one stall has cost: the lanes of
	// faults, whose retries last for a second, lose several at once.
	oneStall = 3 * time.Second

	// deafWindow is how many packets before the one that an ACK names are taken for
	// acknowledged by it: there may be other queue pairs, with other PSNs.
	deafWindow = 512
	// trainLength is how often a request must have been sent for retries to have run out.
	trainLength = 3
	// rememberedPackets is of how many packets the recorder knows at least.
	rememberedPackets = 1 << 15
)

// exhausted reports whether a program says that its retries ran out.
func exhausted(output string) bool {
	for _, s := range []string{"transport retry counter exceeded", "ailed status 12"} {
		if strings.Contains(output, s) {
			return true
		}
	}
	return false
}

// sighting is what is remembered of a packet of RC.
type sighting struct {
	at       time.Duration
	src      netip.Addr
	qpn, psn uint32 // of the destination
	request  bool
	// confirms is set if the packet tells a requester that what has its PSN, and all before,
	// has arrived.
	confirms bool
}

// see makes a sighting; ok is false for what is no packet of RC.
func see(p *wire.Packet, at time.Duration) (s sighting, ok bool) {
	const services = 0xe0 // upper bits of the opcode; 0 is RC
	if p.Opcode&services != 0 {
		return s, false
	}
	s = sighting{at: at, src: p.Src, qpn: p.QPN, psn: p.PSN, request: !wire.IsResponse(p.Opcode)}
	if !s.request {
		syn, has := p.Syndrome()
		s.confirms = (!has || syn&synKind == synAck) && p.ICRCValid()
	}
	return s, true
}

// seen makes the sightings of what a trace has; packets that a rule kept or damaged did
// not reach anybody.
func seen(events []wire.Event) []sighting {
	var out []sighting
	for _, e := range events {
		if s, ok := see(e.Pkt, e.At); ok && e.Delivered() && e.Fate != badSum {
			out = append(out, s)
		}
	}
	return out
}

// recorder remembers the last packets between two addresses. Unlike a trace it keeps no frames,
// and so lasts for many more packets.
type recorder struct {
	now     func() time.Duration
	between [2]netip.Addr
	tr      *wire.Trace

	mu    sync.Mutex
	last  []sighting
	bytes int // behind the BTHs of all packets so far
}

func record(w *wire.Switch, between [2]netip.Addr) *recorder {
	r := &recorder{now: w.Now, between: between}
	r.tr = w.Trace(func(p *wire.Packet) bool { r.packet(p); return false })
	return r
}

func (r *recorder) stop() { r.tr.Stop() }

func (r *recorder) packet(p *wire.Packet) {
	if !r.isBetween(p) {
		return
	}
	s, ok := see(p, r.now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += len(p.Body())
	if !ok {
		return
	}
	if len(r.last) == 2*rememberedPackets {
		r.last = slices.Delete(r.last, 0, rememberedPackets)
	}
	r.last = append(r.last, s)
}

// moved is how many bytes have gone between the addresses.
func (r *recorder) moved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

func (r *recorder) sightings() []sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last)
}

// isBetween reports whether a packet goes from one of the addresses to the other, or to a group.
func (r *recorder) isBetween(p *wire.Packet) bool {
	a, b := r.between[0], r.between[1]
	return p.Src == a && (p.Dst == b || p.Dst.IsMulticast()) || p.Src == b && (p.Dst == a || p.Dst.IsMulticast())
}

// train is a request packet as often as it was sent.
type train struct {
	qpn, psn uint32
	at       []time.Duration
}

func (t train) first() time.Duration { return t.at[0] }
func (t train) last() time.Duration  { return t.at[len(t.at)-1] }

// lastTrain returns the oldest packet among those that a requester sent again and again at the
// end; ok is false if there is none.
func lastTrain(all []sighting, src netip.Addr) (last train, ok bool) {
	type packet struct{ qpn, psn uint32 }
	trains := map[packet][]time.Duration{}
	for _, s := range all {
		if s.request && s.src == src {
			k := packet{s.qpn, s.psn}
			trains[k] = append(trains[k], s.at)
		}
	}
	for k, at := range trains {
		t := train{k.qpn, k.psn, at}
		if len(at) >= trainLength && (!ok || t.last() > last.last()) {
			last, ok = t, true
		}
	}
	if !ok {
		return last, false
	}
	// Those of the same queue pair that were in the last round, too, and come before it.
	round := last.at[len(last.at)-2]
	for k, at := range trains {
		t := train{k.qpn, k.psn, at}
		if len(at) >= trainLength && t.qpn == last.qpn && t.last() > round && psnDiff(t.psn, last.psn) < 0 {
			last = t
		}
	}
	return last, true
}

// deaf reports whether the guest's queue pair to which a train went has sent a request again,
// meanwhile, that the wire had seen acknowledged: that ACK waited where the train did.
func deaf(all []sighting, t train, guest netip.Addr) bool {
	type packet struct{ qpn, psn uint32 }
	sent := map[packet]bool{}      // by the guest
	confirmed := map[packet]bool{} // and seen acknowledged
	for _, s := range all {
		switch {
		case s.src == guest && s.request:
			p := packet{s.qpn, s.psn}
			if confirmed[p] && s.at > t.at[1] && s.at < t.last() {
				return true
			}
			sent[p] = true
		case s.src != guest && s.confirms && s.qpn == t.qpn:
			for p := range sent {
				if d := psnDiff(s.psn, p.psn); d >= 0 && d < deafWindow {
					confirmed[p] = true
					delete(sent, p)
				}
			}
		}
	}
	return false
}

// starvation decides whether retries ran out because the guest was not running. gaveUp are those
// who said so, guest is the guest's address, and silent tells when nothing at all came from
// the guest. Either way the text says what was seen.
//
//   - The guest was asked: it must have sent nothing, to nobody, from the second time that the
//     request was sent until the last; or have sent requests again that the wire had seen
//     acknowledged, because a guest with one processor can be busy sending while what arrives
//     waits. Any other guest that speaks but does not answer is an error of the one who
//     asked, or of its own.
//   - The guest asked: the answer must have been on the wire, and the guest must have asked
//     again all the same. A request that nobody answered is an error.
func starvation(all []sighting, gaveUp []netip.Addr, guest netip.Addr, silent func(from, to time.Duration) bool) (what string, starved bool) {
	// Who gives up first leaves the other one without an answer.
	var t train
	var src netip.Addr
	for _, a := range gaveUp {
		if x, ok := lastTrain(all, a); ok && (t.at == nil || x.last() < t.last()) {
			t, src = x, a
		}
	}
	if t.at == nil {
		return fmt.Sprintf("retries ran out, and no request was seen %d times", trainLength), false
	}
	what = fmt.Sprintf("PSN %#x for QP %#x was sent %d times in %d ms", t.psn, t.qpn, len(t.at), (t.last() - t.first()).Milliseconds())
	if src != guest {
		if silent(t.at[1], t.last()) {
			return "the guest stood still while " + what, true
		}
		if deaf(all, t, guest) {
			return "the guest sent, and did not look at what arrived, while " + what, true
		}
		return "the guest was running while " + what, false
	}
	answered := slices.ContainsFunc(all, func(s sighting) bool {
		return s.confirms && s.src != guest && s.at > t.first() && s.at < t.last() && psnDiff(s.psn, t.psn) >= 0
	})
	if answered {
		return "the guest did not look at its answers: " + what, true
	}
	return "the guest got no answer while " + what, false
}
