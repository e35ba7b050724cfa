package verbs

import "time"

// QPStats tells how an RC queue pair has fared since it was connected ([QP.Stats]); counts are
// modulo 2^32.
type QPStats struct {
	RetransmittedPkts uint32        // of Counters.RetransmittedPkts
	Timeouts          uint32        // of Counters.Timeouts
	SmoothedRTT       time.Duration // round-trip time of requests (RFC 6298); 0 if none was measured
	RTTVariance       time.Duration
}

// Stats returns the statistics of the queue pair: all 0 if it is not RC, or the device is closed.
func (qp *QP) Stats() QPStats {
	if qp.lock() != nil {
		return QPStats{}
	}
	defer qp.s.Unlock()
	s := qp.t.Stats()
	return QPStats{
		RetransmittedPkts: s.RetransmittedPkts, Timeouts: s.Timeouts,
		SmoothedRTT: time.Duration(s.SmoothedRTTNs), RTTVariance: time.Duration(s.RTTVarianceNs),
	}
}
