package transport

// The contracts between the parts of the engine. Each part is written against
// these; this file goes away when every type has its own.
//
// Ready list. qp.markReady() puts the QP on the engine's ready list (no-op if
// it is there). PollTransmit takes QPs round robin; for each it calls
//
//	n := qp.resp.pollTransmit(now, batch) // responses and ACKs first
//	n += qp.sq.pollTransmit(now, batch[n:]) // then requests, up to a quantum
//
// and keeps the QP on the list if either has more to send now.
//
// Receive. HandlePacket decodes into e.rx, runs the checks of wire-spec 2.4
// and calls, with p = &e.rx:
//
//	qp.resp.handleRequest(now, p)   RC requests            (responder.go)
//	qp.sq.handleResponse(now, p)    RC ACK, READ, atomics  (completer.go)
//	qp.handleUC(now, p), qp.handleUD(now, p, rx)
//	qp.handleCNP(now, p)
//
// Timers. qp.setTimer(id, at), qp.stopTimer(id), qp.timerSet(id) bool. Expiry
// calls qp.onTimer(now, id), which dispatches to the part that owns the id.
//
// Errors. qp.fatal(now, ev): moves the QP to ERR, flushes both queues with
// WCFlushErr and raises the event; it calls sq.flush. sq.failHead(now, status,
// vendor) completes the oldest send request with status and then calls
// qp.sqError, which is qp.fatal for RC and the way to SQE for UC and UD.
//
// Completions. cq.push(wc *WC, solicited bool) bool; false means overflow, in
// which case the CQ has raised its event and the caller moves the QP to ERR.
// qp.completeRecv does so for receives. qp.commEstablished() raises its event
// once if the QP is in RTR; call it when a packet passed the checks.
//
// Receive queue. qp.takeRecv() (*recvWQE) returns the next receive request
// from the QP's queue or its SRQ, nil if there is none; it stays valid until
// qp.recycleRecv(w). The responder holds at most one at a time; qp.fatal
// completes and recycles the one that is held, so complete it first to give it
// another status. It is also qp.curRecv.
//
// Life of a send queue and a responder: the methods below, called by qp.go and
// qp_state.go. In ERR and SQE, PostSend queues and then calls sq.flush. While
// the QP is in SQD only what was begun is finished; then sq calls
// qp.sqDrained.
