package transport

// OpenWindow gives a QP that begins its whole window at once, for tests that are about something
// else.
func (qp *QP) OpenWindow() { qp.sq.win.size, qp.sq.win.goal = qp.sq.win.max, 0 }
