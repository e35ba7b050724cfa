package transport

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// qpAccess are the access flags that a QP may have: the rights of peers, and LOCAL_WRITE, which
// verbs programs set as well and which has no effect here.
const qpAccess = mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic |
	mem.FlushGlobal | mem.FlushPersistent

// retainPD notes that one more object of e, of as many as exist, uses pd, or reports why it cannot.
func (e *Engine) retainPD(op string, pd *mem.PD, exist *int) error {
	switch {
	case pd == nil:
		return argError(op, "pd", "missing")
	case !pd.Of(e.cfg.Mem):
		return argError(op, "pd", "of another device")
	case *exist >= MaxObjects:
		return opErr(op, ErrLimit, "%d exist", *exist)
	case pd.Retain() != nil:
		return argError(op, "pd", "destroyed")
	}
	*exist++
	return nil
}

// checkInitAttr reports what is wrong with the attributes of a new QP.
func (e *Engine) checkInitAttr(a *QPInitAttr) error {
	bad := func(attr, format string, args ...any) error {
		return argError("create QP", attr, fmt.Sprintf(format, args...))
	}
	size := func(attr string, n, limit int) error {
		if n < 0 || n > limit {
			return bad(attr, "%d is not in 0..%d", n, limit)
		}
		return nil
	}
	switch {
	case a.Type != ib.RC && a.Type != ib.UC && a.Type != ib.UD:
		return bad("qp_type", "%v is not RC, UC or UD", a.Type)
	case a.SendCQ == nil:
		return bad("send_cq", "missing")
	case a.RecvCQ == nil:
		return bad("recv_cq", "missing")
	}
	if why := a.SendCQ.usableBy(e, a.SendCQ.e); why != "" {
		return bad("send_cq", "%s", why)
	}
	if why := a.RecvCQ.usableBy(e, a.RecvCQ.e); why != "" {
		return bad("recv_cq", "%s", why)
	}
	if a.SRQ != nil {
		if why := a.SRQ.usableBy(e, a.SRQ.e); why != "" {
			return bad("srq", "%s", why)
		}
	}
	if c := a.Congestion; c != nil {
		if err := c.Check(); err != nil {
			return bad("congestion", "%v", err)
		}
	}
	for _, err := range []error{
		size("max_send_wr", a.Caps.MaxSendWR, MaxQueueWR),
		size("max_send_sge", a.Caps.MaxSendSGE, MaxSGE),
		size("max_inline_data", a.Caps.MaxInline, MaxInline),
	} {
		if err != nil {
			return err
		}
	}
	if a.SRQ != nil {
		return nil
	}
	if err := size("max_recv_wr", a.Caps.MaxRecvWR, MaxQueueWR); err != nil {
		return err
	}
	return size("max_recv_sge", a.Caps.MaxRecvSGE, MaxSGE)
}

// attrCheck checks the value of one attribute.
type attrCheck struct {
	bit   AttrMask
	name  string // of the verbs attribute
	check func(qp *QP, a *QPAttr) string
}

// attrChecks lists every attribute of Modify. A check returns what is wrong, or "". Engine.resolve
// checks address vectors.
var attrChecks = [...]attrCheck{
	{AttrState, "qp_state", nil},
	{AttrCurState, "cur_qp_state", func(qp *QP, a *QPAttr) string {
		return differ(a.CurState == qp.state, "%v, but the QP is in %v", a.CurState, qp.state)
	}},
	{AttrEnSQDNotify, "en_sqd_async_notify", nil},
	{AttrAccess, "qp_access_flags", func(qp *QP, a *QPAttr) string {
		return differ(a.Access&^qpAccess == 0, "unknown flags %#x", uint32(a.Access&^qpAccess))
	}},
	{AttrPKeyIndex, "pkey_index", func(qp *QP, a *QPAttr) string {
		return differ(a.PKeyIndex == 0, "%d, and the table has one entry", a.PKeyIndex)
	}},
	{AttrPort, "port_num", func(qp *QP, a *QPAttr) string {
		return differ(a.PortNum == 1, "%d, and the device has port 1", a.PortNum)
	}},
	{AttrQKey, "qkey", nil},
	{AttrAV, "ah_attr", nil},
	{AttrPathMTU, "path_mtu", func(qp *QP, a *QPAttr) string {
		if !a.PathMTU.Valid() {
			return fmt.Sprintf("%d is not an MTU", uint8(a.PathMTU))
		}
		return differ(a.PathMTU <= qp.e.mtu, "%v exceeds the active MTU %v", a.PathMTU, qp.e.mtu)
	}},
	{AttrTimeout, "timeout", func(qp *QP, a *QPAttr) string {
		return differ(a.Timeout.Valid(), "%d is not in 0..31", a.Timeout)
	}},
	{AttrRetryCnt, "retry_cnt", func(qp *QP, a *QPAttr) string {
		return differ(a.RetryCnt <= MaxRetryCnt, "%d is not in 0..%d", a.RetryCnt, MaxRetryCnt)
	}},
	{AttrRNRRetry, "rnr_retry", func(qp *QP, a *QPAttr) string {
		return differ(a.RNRRetry <= MaxRNRRetry, "%d is not in 0..%d", a.RNRRetry, MaxRNRRetry)
	}},
	{AttrRQPSN, "rq_psn", func(qp *QP, a *QPAttr) string {
		return differ(a.RQPSN <= ib.PSNMask, "%#x exceeds 24 bits", uint32(a.RQPSN))
	}},
	{AttrMaxRdAtomic, "max_rd_atomic", func(qp *QP, a *QPAttr) string {
		return differ(a.MaxRdAtomic <= MaxRdAtomic, "%d is not in 0..%d", a.MaxRdAtomic, MaxRdAtomic)
	}},
	{AttrMinRNRTimer, "min_rnr_timer", func(qp *QP, a *QPAttr) string {
		return differ(a.MinRNRTimer.Valid(), "%d is not in 0..31", a.MinRNRTimer)
	}},
	{AttrSQPSN, "sq_psn", func(qp *QP, a *QPAttr) string {
		return differ(a.SQPSN <= ib.PSNMask, "%#x exceeds 24 bits", uint32(a.SQPSN))
	}},
	{AttrMaxDestRdAtomic, "max_dest_rd_atomic", func(qp *QP, a *QPAttr) string {
		return differ(a.MaxDestRdAtomic <= MaxRdAtomic, "%d is not in 0..%d", a.MaxDestRdAtomic, MaxRdAtomic)
	}},
	{AttrDestQPN, "dest_qp_num", func(qp *QP, a *QPAttr) string {
		return differ(a.DestQPN > ib.QPNGSI && a.DestQPN < ib.QPNMulticast,
			"%v is not a connected QP's number", a.DestQPN)
	}},
	{AttrWindow, "max_unacked_packets", func(qp *QP, a *QPAttr) string {
		return differ(a.MaxUnackedPackets >= 0 && a.MaxUnackedPackets < ib.MaxPSNSpan,
			"%d is not in 0..%d", a.MaxUnackedPackets, ib.MaxPSNSpan-1)
	}},
	{AttrSilence, "silence_timeout", func(qp *QP, a *QPAttr) string {
		return differ(a.SilenceNs >= 0 && a.SilenceNs <= MaxSilenceNs, "%d ns is not in 0..%d", a.SilenceNs,
			int64(MaxSilenceNs))
	}},
}

// differ returns the text unless ok.
func differ(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// attrName returns the names of the attributes in m.
func attrName(m AttrMask) string {
	s := ""
	for i := range attrChecks {
		if c := &attrChecks[i]; m&c.bit != 0 {
			if s != "" {
				s += ", "
			}
			s += c.name
			m &^= c.bit
		}
	}
	if m != 0 {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("mask %#x", uint32(m))
	}
	return s
}

// checkAttrs checks the values of the attributes that mask selects.
func (qp *QP) checkAttrs(op string, a *QPAttr, mask AttrMask) error {
	for i := range attrChecks {
		c := &attrChecks[i]
		if mask&c.bit == 0 || c.check == nil {
			continue
		}
		if why := c.check(qp, a); why != "" {
			return argError(op, c.name, why)
		}
	}
	return nil
}

// store copies the attributes that mask selects.
func (qp *QP) store(a *QPAttr, mask AttrMask) {
	d := &qp.attr
	set := func(bit AttrMask, f func()) {
		if mask&bit != 0 {
			f()
		}
	}
	set(AttrEnSQDNotify, func() { d.EnSQDAsyncNotify = a.EnSQDAsyncNotify })
	set(AttrAccess, func() { d.Access = a.Access })
	set(AttrPKeyIndex, func() { d.PKeyIndex = a.PKeyIndex })
	set(AttrPort, func() { d.PortNum = a.PortNum })
	set(AttrQKey, func() { d.QKey = a.QKey })
	set(AttrAV, func() { d.AV = a.AV })
	set(AttrPathMTU, func() { d.PathMTU = a.PathMTU })
	set(AttrTimeout, func() { d.Timeout = a.Timeout })
	set(AttrRetryCnt, func() { d.RetryCnt = a.RetryCnt })
	set(AttrRNRRetry, func() { d.RNRRetry = a.RNRRetry })
	set(AttrRQPSN, func() { d.RQPSN = a.RQPSN })
	set(AttrMaxRdAtomic, func() { d.MaxRdAtomic = a.MaxRdAtomic })
	set(AttrMinRNRTimer, func() { d.MinRNRTimer = a.MinRNRTimer })
	set(AttrSQPSN, func() { d.SQPSN = a.SQPSN })
	set(AttrMaxDestRdAtomic, func() { d.MaxDestRdAtomic = a.MaxDestRdAtomic })
	set(AttrDestQPN, func() { d.DestQPN = a.DestQPN })
	set(AttrWindow, func() { d.MaxUnackedPackets = a.MaxUnackedPackets })
	set(AttrSilence, func() { d.SilenceNs = a.SilenceNs })
}
