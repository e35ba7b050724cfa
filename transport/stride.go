package transport

import "github.com/goroce/goroce/ib"

// stride spaces what leaves with a window beyond that of a short path. One answer may make room for
// all of it: the one to a packet that was missing, or the first after the program had nothing to
// send. At once, that would overflow any queue. So in a part of a round trip no more leaves than
// that part of the window, and half as much again.
type stride struct {
	from ib.PSN // end when this part began
	at   int64  // when it did
}

// strideShift is the logarithm of the number of parts.
const strideShift = 4

// strides reports whether the next packet must wait for the next part, and sets a timer then.
func (sq *requester) strides(now int64) bool {
	s, w := &sq.stride, &sq.win
	part := max(sq.rtt.smoothed>>strideShift, 1)
	switch {
	case w.size <= w.near || sq.psn != sq.end:
		return false
	case now-s.at >= part:
		s.at, s.from = now, sq.end
		return false
	case span(s.from, sq.end) < w.size*3/2>>strideShift:
		return false
	}
	sq.qp.setTimer(timerPace, s.at+part)
	return true
}
