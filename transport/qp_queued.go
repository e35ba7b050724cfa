package transport

// QPQueued counts the work requests in the queues of a queue pair.
type QPQueued struct {
	Sends int // posted and not completed
	Sent  int // of Sends, the oldest: fully handed out for transmission
	Recvs int // posted and not used by a message yet; 0 with an SRQ
}

// Queued returns how full the queues are.
func (qp *QP) Queued() QPQueued {
	q := &qp.sq.q
	return QPQueued{Sends: q.len(), Sent: int(q.cur - q.head), Recvs: qp.rq.posted()}
}
