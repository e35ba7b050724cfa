package explain

import (
	"iter"
	"slices"
)

// drawnPackets is how many packets a page draws unless it is told otherwise. They take some 10 MB
// of memory here, 7 MB of page, and a browser shows them without a delay.
const drawnPackets = 100_000

// mostDrawn is how many it draws at most: browsers place nothing below some 17 million pixels, and
// the page has 35 MB then.
const mostDrawn = 500_000

// window keeps the rows of a part of a capture, however long that is: the first ones, unless told
// otherwise.
type window struct {
	most   int  // how many rows it keeps
	last   bool // keep the last ones
	around int  // unless 0: keep half of them before this frame, the others from it on
	keyed  bool // rows are compared with those of another capture
	// from and to are the first and the last frame to keep, unless 0.
	from, to int
	// known are packets to look for; firstKnown and lastKnown are the frames of the first and the
	// last of them.
	known                 map[uint64]bool
	firstKnown, lastKnown int

	rows []row
	next int // rows is a ring, of which this one is the oldest
}

// add takes the row of the next packet.
func (w *window) add(r row) {
	if w.known[r.head] {
		if w.firstKnown == 0 {
			w.firstKnown = r.frame
		}
		w.lastKnown = r.frame
	}
	if w.from > 0 && (r.frame < w.from || r.frame > w.to) {
		return
	}
	most, ring := w.most, w.last
	if w.around > 0 {
		if ring = r.frame < w.around; ring {
			most = w.most / 2
		} else if w.next > 0 {
			w.rows, w.next = slices.Collect(w.all()), 0
		}
	}
	switch {
	case len(w.rows) < most:
		w.rows = append(w.rows, r)
	case ring && most > 0:
		w.rows[w.next] = r
		w.next = (w.next + 1) % most
	}
}

// all are the rows, in the order of the capture.
func (w *window) all() iter.Seq[row] {
	return func(yield func(row) bool) {
		for i := range w.rows {
			if !yield(w.rows[(w.next+i)%len(w.rows)]) {
				return
			}
		}
	}
}

// has reports whether a frame is not beyond the ends of the window.
func (w *window) has(frame int) bool {
	n := len(w.rows)
	return n > 0 && w.rows[w.next].frame <= frame && frame <= w.rows[(w.next+n-1)%n].frame
}
