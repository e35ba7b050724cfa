package transport

// QPs calls f for each QP of the engine, in no particular order, until f returns false. f must not
// create or destroy QPs.
func (e *Engine) QPs(f func(*QP) bool) {
	for _, qp := range e.qps {
		if !f(qp) {
			return
		}
	}
}
