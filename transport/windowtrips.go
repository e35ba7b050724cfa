package transport

import "github.com/goroce/goroce/ib"

// windowTrips are packets that left with a large window in flight, and how much that was. One of
// them that is answered as if there were no queue shows that the path has room for more: a process
// that waits for a processor makes answers late, and nothing makes them early. A packet that left
// before the window grew shows nothing of it, or the window would grow twice for one round trip.
type windowTrips struct {
	ring    [maxWindowTrips]windowTrip
	head, n int
}

type windowTrip struct {
	psn    ib.PSN
	flight int
	at     int64
}

// maxWindowTrips is more than there are answers to a window on a long path (farShift).
const maxWindowTrips = 4 << farShift

// sent notes a packet that requests an answer.
func (f *windowTrips) sent(t windowTrip) {
	if f.n == maxWindowTrips {
		return
	}
	f.ring[(f.head+f.n)%maxWindowTrips] = t
	f.n++
}

// answered takes out those before una, and returns the most that was in flight with one whose round
// trip was no longer than ns; 0 if there was none.
func (f *windowTrips) answered(now int64, una ib.PSN, ns int64) (flight int) {
	for f.n != 0 && una.After(f.ring[f.head].psn) {
		if t := &f.ring[f.head]; now-t.at <= ns {
			flight = max(flight, t.flight)
		}
		f.head = (f.head + 1) % maxWindowTrips
		f.n--
	}
	return flight
}

// forget drops them, because the window has become smaller. There may be no f.
func (f *windowTrips) forget() {
	if f != nil {
		f.n = 0
	}
}
