package transport

// QPStats is how an RC queue pair has fared since it was connected, modulo 2^32.
type QPStats struct {
	RetransmittedPkts uint32 // of [Counters.RetransmittedPkts]
	Timeouts          uint32 // of [Counters.Timeouts]
	SmoothedRTTNs     int64  // round-trip time of requests (RFC 6298), since RTS; 0 if none was measured
	RTTVarianceNs     int64
}

// Stats returns the statistics of the queue pair, all 0 for one that is not RC.
func (qp *QP) Stats() QPStats {
	sq := &qp.sq
	return QPStats{
		RetransmittedPkts: sq.sentAgain, Timeouts: sq.retry.timeouts,
		SmoothedRTTNs: sq.rtt.smoothed, RTTVarianceNs: sq.rtt.variance,
	}
}
