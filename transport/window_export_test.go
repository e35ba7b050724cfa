package transport

// OpenWindow gives a QP that begins its whole window at once, for tests that are about something
// else.
func (qp *QP) OpenWindow() { qp.sq.win.size, qp.sq.win.doubling = qp.sq.win.max, false }
