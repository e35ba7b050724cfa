package transport

// QPQueued is how many work requests the queues of a queue pair hold.
type QPQueued struct {
	Sends int // posted and not completed
	Sent  int // of Sends, the oldest: handed out for transmission in whole
	Recvs int // posted and not taken by a message; 0 with an SRQ
}

// Queued returns how full the queues are.
func (qp *QP) Queued() QPQueued {
	q := &qp.sq.q
	return QPQueued{Sends: q.len(), Sent: int(q.cur - q.head), Recvs: qp.rq.posted()}
}
