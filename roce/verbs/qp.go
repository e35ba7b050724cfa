package verbs

import (
	"encoding/binary"
	"io"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// QPInitAttr describes a queue pair to create (ibv_qp_init_attr).
type QPInitAttr struct {
	Type   ib.Transport // RC, UC or UD (qp_type)
	SendCQ *CQ          // for completions of sends
	RecvCQ *CQ          // for completions of receives; nil is SendCQ
	SRQ    *SRQ         // the source of receives; nil is a receive queue of its own
	Caps   QPCaps       // the sizes of the queues
	SigAll bool         // every send work request makes a completion, as with SendSignaled (sq_sig_all)
	QPN    ib.QPN       // its number; 0 is a random one
	// UserData is for the application: QP.UserData returns it (qp_context).
	UserData any
	// Congestion selects congestion control; nil means that of Config.Tuning.
	Congestion *cc.Config
}

// QP is a queue pair (ibv_qp).
type QP struct {
	d        *Device
	s        *shard.Shard // its engine has t
	pd       *PD
	t        *transport.QP
	num      ib.QPN
	typ      ib.Transport
	psn      ib.PSN // initial PSN of the send queue, for Connect
	userData any
	noDelay  bool         // under the shard's lock
	groups   []membership // the same
	// established, if set, is called, in place of the event, when the peer's first packet arrives,
	// with the lock of the first shard held.
	established func()
	// unanswered, if set, is called in the same way when the peer does not answer.
	unanswered func()
}

// CreateQP makes a queue pair in state RESET. It lives on the shard of SendCQ's completion vector.
// Errors about an attribute are *ArgError.
func (pd *PD) CreateQP(a QPInitAttr) (*QP, error) {
	d := pd.Device()
	if a.SendCQ == nil {
		return nil, argError("create QP", "SendCQ", "nil")
	}
	if a.RecvCQ == nil {
		a.RecvCQ = a.SendCQ
	}
	switch {
	case a.SendCQ.d != d:
		return nil, argError("create QP", "SendCQ", "of another device")
	case a.RecvCQ.d != d:
		return nil, argError("create QP", "RecvCQ", "of another device")
	case a.SRQ != nil && a.SRQ.d != d:
		return nil, argError("create QP", "SRQ", "of another device")
	}
	qp := &QP{d: d, pd: pd, typ: a.Type, userData: a.UserData}
	ta := transport.QPInitAttr{
		Type: a.Type, PD: pd.t, SendCQ: a.SendCQ.t, RecvCQ: a.RecvCQ.t,
		Caps: transport.QPCaps(withDefaults(a.Caps)), SigAll: a.SigAll, QPN: a.QPN, UserData: qp,
		Congestion: a.Congestion,
	}
	if a.SRQ != nil {
		ta.SRQ = a.SRQ.t
	}
	if d.unmade() {
		return nil, access.ErrZero
	}
	qp.s = a.SendCQ.s
	if a.QPN == ib.QPNGSI {
		qp.s = d.s
	}
	if a.SendCQ.s == nil || a.RecvCQ.s == nil || a.SRQ != nil && a.SRQ.s == nil {
		return nil, access.ErrZero
	}
	unlock, err := qp.lockWith(&a)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var psn [4]byte
	if _, err := io.ReadFull(qp.s.Rand(), psn[:]); err != nil {
		return nil, &OpError{Op: "create QP", Err: err}
	}
	qp.psn = ib.PSN(binary.BigEndian.Uint32(psn[:])) & ib.PSNMask
	t, err := qp.s.Engine().CreateQP(ta)
	if err == nil && t.Number() == ib.QPNGSI {
		if err = qp.s.Slotted().ServeRequests(); err != nil {
			_ = t.Destroy() // it is new
		}
	}
	if err != nil {
		return nil, own(err)
	}
	qp.t, qp.num = t, t.Number()
	return qp, nil
}

// lock takes the lock of the queue pair's shard. On an error it is not held.
func (qp *QP) lock() error {
	if qp.s == nil {
		return access.ErrZero
	}
	return qp.s.Lock()
}

// lockWith takes the locks of all shards that the queue pair will use, and prepares objects of
// other shards for it.
func (qp *QP) lockWith(a *QPInitAttr) (unlock func(), err error) {
	set := []*shard.Shard{qp.s, a.SendCQ.s, a.RecvCQ.s}
	if a.SRQ != nil {
		set = append(set, a.SRQ.s)
	}
	if unlock, err = lockShards(set...); err != nil {
		return nil, err
	}
	a.SendCQ.feed(qp.s)
	a.RecvCQ.feed(qp.s)
	if a.SRQ != nil && a.SRQ.s != qp.s {
		a.SRQ.t.Share()
	}
	return unlock, nil
}

func withDefaults(c QPCaps) QPCaps {
	for _, f := range []struct {
		p   *int
		def int
	}{
		{&c.MaxSendWR, defaultMaxWR}, {&c.MaxRecvWR, defaultMaxWR},
		{&c.MaxSendSGE, defaultMaxSGE}, {&c.MaxRecvSGE, defaultMaxSGE},
	} {
		if *f.p == 0 {
			*f.p = f.def
		}
	}
	return c
}

// Num returns the number of the queue pair.
func (qp *QP) Num() ib.QPN { return qp.num }

// PSN returns the first PSN to send.
func (qp *QP) PSN() ib.PSN { return qp.psn }

// Type returns the service type.
func (qp *QP) Type() ib.Transport { return qp.typ }

// PD returns the protection domain.
func (qp *QP) PD() *PD { return qp.pd }

// Device returns the device of the queue pair.
func (qp *QP) Device() *Device { return qp.d }

// UserData returns QPInitAttr.UserData.
func (qp *QP) UserData() any { return qp.userData }

// State returns the current state; StateErr once the device is closed.
func (qp *QP) State() QPState {
	if qp.lock() != nil {
		return StateErr
	}
	defer qp.s.Unlock()
	return qp.t.State()
}

// Congestion returns the state of the queue pair's congestion control; ok is
// false if it has none, or the device is closed.
func (qp *QP) Congestion() (s cc.State, ok bool) {
	if qp.lock() != nil {
		return cc.State{}, false
	}
	defer qp.s.Unlock()
	return qp.t.Congestion(qp.s.Now())
}

// Modify changes the attributes that mask selects (ibv_modify_qp).
func (qp *QP) Modify(a QPAttr, mask AttrMask) error {
	return doOn(qp.s, func(now int64) error {
		qp.s.Engine().SetMTU(qp.s.ActiveMTU())
		return qp.t.Modify(now, a.toEngine(), mask)
	})
}

// Query returns the current attributes, and the sizes of the queues.
func (qp *QP) Query() (QPAttr, QPCaps, error) {
	if err := qp.lock(); err != nil {
		return QPAttr{}, QPCaps{}, err
	}
	defer qp.s.Unlock()
	t, init := qp.t.Query()
	var a QPAttr
	a.ofEngine(&t)
	return a, QPCaps(init.Caps), nil
}

// Unreachable counts the packets of a connected queue pair that the link could not send since its
// path was set, because there was no route, its address had gone, or the interface was down; link
// packet, which resolves neighbours itself, also counts those whose neighbour did not answer. Work
// requests fail with a retry error as usual.
func (qp *QP) Unreachable() uint64 {
	if qp.lock() != nil {
		return 0
	}
	defer qp.s.Unlock()
	return qp.t.Unreachable()
}

// PostSend queues a work request and sends it now, or within a few microseconds if it may share a
// datagram (see [QP.SetNoDelay]). An error means that nothing was queued. The request is copied;
// the registered memory that it refers to belongs to the device until the request completes.
func (qp *QP) PostSend(wr *SendWR) error {
	if err := qp.lock(); err != nil {
		return err
	}
	now := qp.s.Now()
	err := qp.postSend(now, wr)
	switch {
	case err != nil:
	case qp.noDelay:
		qp.s.PostedAll(now)
	default:
		qp.s.Posted(now, qp.t.InFlight(), payload(wr))
	}
	qp.s.Unlock()
	return own(err)
}

// PostSendBatch queues several work requests under one lock and sends them together, which small
// messages need to be fast: packets of one connection leave in one system call. It returns how many
// were queued; if fewer than all, with the error of the next one.
func (qp *QP) PostSendBatch(wrs []SendWR) (int, error) {
	if err := qp.lock(); err != nil {
		return 0, err
	}
	now := qp.s.Now()
	var err error
	n := 0
	for n < len(wrs) {
		if err = qp.postSend(now, &wrs[n]); err != nil {
			break
		}
		n++
	}
	switch {
	case n == 0:
	case n == 2 && tells(&wrs[0], &wrs[1]) && !qp.noDelay:
		qp.s.Posted(now, qp.t.InFlight(), payload(&wrs[0]))
	default:
		qp.s.PostedAll(now)
	}
	qp.s.Unlock()
	return n, own(err)
}

// tells reports whether two work requests are one message: a WRITE, and a message without bytes
// that tells the peer of it.
func tells(data, of *SendWR) bool {
	return data.Opcode == WRWrite && data.Flags&SendSignaled == 0 && of.Opcode == WRWriteImm && payload(of) == 0
}

// PostRecv queues a receive work request.
func (qp *QP) PostRecv(wr *RecvWR) error {
	if err := qp.lock(); err != nil {
		return err
	}
	err := qp.t.PostRecv(engineRecv(wr))
	qp.s.Received()
	qp.s.Unlock()
	return own(err)
}

// PostRecvBatch queues several receive work requests under one lock. It returns how many were
// queued.
func (qp *QP) PostRecvBatch(wrs []RecvWR) (int, error) {
	if err := qp.lock(); err != nil {
		return 0, err
	}
	defer qp.s.Unlock()
	defer qp.s.Received()
	for i := range wrs {
		if err := qp.t.PostRecv(engineRecv(&wrs[i])); err != nil {
			return i, own(err)
		}
	}
	return len(wrs), nil
}

// payload returns the length of a message.
func payload(wr *SendWR) int {
	n := len(wr.Inline)
	for i := range wr.SGList {
		n += int(wr.SGList[i].Length)
	}
	return n
}

// postSend passes a work request to the engine. The lock is held.
func (qp *QP) postSend(now int64, wr *SendWR) error {
	s := qp.s
	if qp.typ == UD {
		s.Engine().SetMTU(s.ActiveMTU()) // it bounds the message
	}
	if namesObjects(wr) {
		return qp.postTranslated(now, wr)
	}
	return s.PostSend(now, qp.t, engineSend(wr))
}

// postTranslated is postSend for a request that names objects. It is a separate function so that
// other requests need no copy on the stack.
//
//go:noinline
func (qp *QP) postTranslated(now int64, wr *SendWR) error {
	t := translated(qp.s, wr)
	return qp.s.PostSend(now, qp.t, &t)
}

// SetNoDelay makes PostSend send every message by itself and at once. By default, messages posted
// one by one, while others of the queue pair are on their way, may share a datagram. For that they
// wait up to a few microseconds, but never beyond the next look at an empty completion queue.
func (qp *QP) SetNoDelay(on bool) {
	if qp.s == nil {
		return
	}
	qp.s.LockAlways()
	qp.noDelay = on
	qp.s.Unlock()
}

// Close ends the queue pair (ibv_destroy_qp). It sends and completes nothing any more; completions
// that exist stay in their queues. It fails with ErrBusy while a type 2A window is bound on it.
func (qp *QP) Close() error {
	err := endOn(qp.s, "QP", func() error {
		err := qp.t.Destroy()
		if err == nil {
			qp.leaveGroups()
		}
		return err
	})
	if err == nil && qp.d != nil {
		qp.d.async.forget(func(e *Event) bool { return e.QP == qp })
	}
	return err
}
