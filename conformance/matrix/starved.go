package matrix

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/roce/analyse"
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
	maxStarved = 20
	// maxInconclusive is how many rows of a run may be inconclusive.
	maxInconclusive = 5
	// againTime is for how long attempts of a run may be made again, all of them together, side by
	// side or not: some hundred attempts, or one that has reached its limit.
	againTime = 5 * time.Minute
	// oneStall is how far apart the ends of tries may be that one stall has cost: the lanes of
	// faults, whose retries last for a second, lose several at once.
	oneStall = 3 * time.Second

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

// recorder has the analyser follow the packets between two addresses, for what it remembers of the
// last ones. Unlike a trace it keeps no frames, and so lasts for many more packets.
type recorder struct {
	now     func() time.Duration
	between [2]netip.Addr
	tr      *ether.Trace
	seen    *wired

	mu    sync.Mutex
	bytes int // behind the BTHs of all packets so far
}

func record(w *ether.Switch, between [2]netip.Addr) *recorder {
	r := &recorder{now: w.Now, between: between, seen: newWired(rememberedPackets)}
	r.tr = w.Trace(func(p *ether.Packet) bool { r.packet(p); return false })
	return r
}

func (r *recorder) stop() { r.tr.Stop() }

func (r *recorder) packet(p *ether.Packet) {
	if !r.isBetween(p) {
		return
	}
	r.mu.Lock()
	r.bytes += len(p.Body())
	r.mu.Unlock()
	r.seen.take(r.now(), p)
}

// moved is how many bytes have gone between the addresses.
func (r *recorder) moved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// isBetween reports whether a packet goes from one of the addresses to the other, or to a group.
func (r *recorder) isBetween(p *ether.Packet) bool {
	a, b := r.between[0], r.between[1]
	return p.Src == a && (p.Dst == b || p.Dst.IsMulticast()) || p.Src == b && (p.Dst == a || p.Dst.IsMulticast())
}

// guestPort is what the wire knows of what the guest has sent: see [ether.Port].
type guestPort interface {
	SilentIn(from, to time.Duration) bool
	MuteIn(from, to time.Duration, qps int) bool
	LongestSilences(from, to time.Duration) (frames, packets time.Duration)
}

// starvation decides whether retries ran out because the guest was not running. gaveUp are those
// who said so, guest is the guest's address, and from tells what came from
// the guest. Either way the text says what was seen.
//
//   - The guest was asked: it must have sent nothing, to nobody, from the first retry of the request
//     until the last; or no packet of RoCE, to nobody, though another queue pair was asked,
//     too, which an error in one conversation does not explain; or have answered later than the one who asked waits
//     for it; or have sent requests again that the wire had seen
//     acknowledged, because a guest with one processor can be busy sending while what arrives
//     waits. Any other guest that speaks but does not answer is an error of the one who
//     asked, or of its own.
//   - The guest asked: the answer must have been on the wire, and the guest must have asked
//     again all the same. A request that nobody answered is an error.
func starvation(seen *analyse.Report, gaveUp []netip.Addr, guest netip.Addr,
	from guestPort) (what string, starved bool) {
	x := seen.Exhausted(gaveUp...)
	if x == nil {
		return "retries ran out, and no request was seen again and again", false
	}
	what = fmt.Sprintf("PSN %#x for QP %#x was sent %d times in %d ms", uint32(x.PSN), uint32(x.QPN), x.Times,
		time.Duration(x.LastNs-x.FirstNs).Milliseconds())
	switch asked := x.Requester != guest; {
	case asked && from.SilentIn(time.Duration(x.RetryNs), time.Duration(x.LastNs)):
		return "the guest stood still while " + what, true
	case asked && from.MuteIn(time.Duration(x.RetryNs), time.Duration(x.LastNs), 2):
		return "the guest answered nobody, and several asked, while " + what, true
	case asked && x.LateNs > 0:
		return fmt.Sprintf("the guest answered %d ms after the last retry, when %s", (x.LateNs-x.LastNs)/1e6, what),
			true
	case asked && x.Deaf:
		return "the guest sent, and did not look at what arrived, while " + what, true
	case asked:
		frames, packets := from.LongestSilences(time.Duration(x.RetryNs), time.Duration(x.LastNs))
		if x.Answered {
			what += ", and answered"
		}
		return fmt.Sprintf(
			"the guest was running (it was silent for %d ms at most, and sent nothing of RoCE for %d ms) while %s",
			frames.Milliseconds(), packets.Milliseconds(), what), false
	case x.Answered:
		return "the guest did not look at its answers: " + what, true
	}
	return "the guest got no answer while " + what, false
}
