package transport

// HasReady reports whether a QP waits for a turn in PollTransmit.
func (e *Engine) HasReady() bool { return e.ready.head != nil }
