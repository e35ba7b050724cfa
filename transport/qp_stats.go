package transport

// QPStats counts events of an RC queue pair since it was connected, modulo 2^32.
type QPStats struct {
	RetransmittedPkts uint32 // this QP's part of [Counters.RetransmittedPkts]
	Timeouts          uint32 // this QP's part of [Counters.Timeouts]
	SmoothedRTTNs     int64  // round-trip time of requests (RFC 6298) since RTS; 0 if unknown
	RTTVarianceNs     int64
}

// Stats returns the statistics of the queue pair, all 0 unless it is RC.
func (qp *QP) Stats() QPStats {
	sq := &qp.sq
	return QPStats{
		RetransmittedPkts: sq.sentAgain, Timeouts: sq.retry.timeouts,
		SmoothedRTTNs: sq.rtt.smoothed, RTTVarianceNs: sq.rtt.variance,
	}
}
