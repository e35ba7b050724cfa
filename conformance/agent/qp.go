package agent

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

var qpCommands = map[string]func(*session) error{"qp": (*session).qp, "modify": (*session).modify,
	"query": (*session).query}

func (s *session) qp() error {
	pd, send, recv := object[*verbs.PD](s, "pd"), object[*queue](s, "send_cq"), object[*queue](s, "recv_cq")
	kind, ok := map[string]ib.Transport{"rc": verbs.RC, "uc": verbs.UC, "ud": verbs.UD}[s.str("type")]
	if !ok {
		s.complain(refuse(einval, "type %.20q", s.str("type")))
	}
	srq := optional[*verbs.SRQ](s, "srq")
	sendWR, recvWR, inline := s.num("max_send_wr", 64), s.num("max_recv_wr", 64), s.num("max_inline", 0)
	caps := verbs.QPCaps{
		MaxSendWR: clampInt(sendWR), MaxRecvWR: clampInt(recvWR), MaxInline: clampInt(inline),
		MaxSendSGE: s.size("max_send_sge", 4), MaxRecvSGE: s.size("max_recv_sge", 4),
	}
	a := verbs.QPInitAttr{Type: kind, SRQ: srq, Caps: caps, SigAll: s.num("sig_all", 0) != 0}
	if s.bad != nil {
		return s.bad
	}
	a.SendCQ, a.RecvCQ = send.CQ, recv.CQ
	qp, err := pd.CreateQP(a)
	if err := s.add(qp, err); err != nil {
		return err
	}
	s.say("qpn=0x%x max_inline=%d max_send_wr=%d max_recv_wr=%d", uint32(qp.Num()), inline, sendWR, recvWR)
	return nil
}

// modify sets the attributes that are named.
func (s *session) modify() error {
	qp := object[*verbs.QP](s, "qp")
	var a verbs.QPAttr
	var mask verbs.AttrMask
	for _, x := range []struct {
		key  string
		max  uint64
		bit  verbs.AttrMask
		into func(n uint64)
	}{
		{"state", 255, verbs.AttrState, func(n uint64) { a.State = verbs.QPState(n) }},
		{"cur_state", 255, verbs.AttrCurState, func(n uint64) { a.CurState = verbs.QPState(n) }},
		{"access", 1<<32 - 1, verbs.AttrAccess, func(n uint64) { a.Access = verbs.Access(n) }},
		{"pkey_index", 1<<16 - 1, verbs.AttrPKeyIndex, func(n uint64) { a.PKeyIndex = uint16(n) }},
		{"port", 255, verbs.AttrPort, func(n uint64) { a.PortNum = uint8(n) }},
		{"qkey", 1<<32 - 1, verbs.AttrQKey, func(n uint64) { a.QKey = ib.QKey(n) }},
		{"path_mtu", 255, verbs.AttrPathMTU, func(n uint64) { a.PathMTU = ib.MTU(n) }},
		{"timeout", 255, verbs.AttrTimeout, func(n uint64) { a.Timeout = ib.TimeoutCode(n) }},
		{"retry_cnt", 255, verbs.AttrRetryCnt, func(n uint64) { a.RetryCnt = uint8(n) }},
		{"rnr_retry", 255, verbs.AttrRNRRetry, func(n uint64) { a.RNRRetry = uint8(n) }},
		{"rq_psn", 1<<24 - 1, verbs.AttrRQPSN, func(n uint64) { a.RQPSN = ib.PSN(n) }},
		{"sq_psn", 1<<24 - 1, verbs.AttrSQPSN, func(n uint64) { a.SQPSN = ib.PSN(n) }},
		{"max_rd_atomic", 255, verbs.AttrMaxRdAtomic, func(n uint64) { a.MaxRdAtomic = uint8(n) }},
		{"max_dest_rd_atomic", 255, verbs.AttrMaxDestRdAtomic, func(n uint64) { a.MaxDestRdAtomic = uint8(n) }},
		{"min_rnr_timer", 255, verbs.AttrMinRNRTimer, func(n uint64) { a.MinRNRTimer = ib.RNRCode(n) }},
		{"dest_qpn", 1<<24 - 1, verbs.AttrDestQPN, func(n uint64) { a.DestQPN = ib.QPN(n) }},
		{"sqd_notify", 1, verbs.AttrEnSQDNotify, func(n uint64) { a.EnSQDAsyncNotify = n != 0 }},
	} {
		if !s.has(x.key) {
			continue
		}
		n := s.need(x.key)
		if n > x.max {
			s.complain(refuse(einval, "%s=%d is more than %d", x.key, n, x.max))
		}
		x.into(n)
		mask |= x.bit
	}
	if s.has("dgid") {
		a.AV = s.vector()
		mask |= verbs.AttrAV
	}
	if s.bad != nil {
		return s.bad
	}
	return qp.Modify(a, mask)
}

func (s *session) query() error {
	qp := object[*verbs.QP](s, "qp")
	if s.bad != nil {
		return s.bad
	}
	a, _, err := qp.Query()
	if err != nil {
		return err
	}
	draining := 0
	if a.SQDraining {
		draining = 1
	}
	s.say("state=%d path_mtu=%d qkey=0x%x rq_psn=0x%x sq_psn=0x%x dest_qpn=0x%x access=0x%x max_rd_atomic=%d max_dest_rd_atomic=%d"+
		" min_rnr_timer=%d timeout=%d retry_cnt=%d rnr_retry=%d sq_draining=%d dgid=%s sgid_index=%d tclass=%d",
		int(a.State), uint8(a.PathMTU), uint32(a.QKey), uint32(a.RQPSN), uint32(a.SQPSN), uint32(a.DestQPN),
		uint32(a.Access), a.MaxRdAtomic, a.MaxDestRdAtomic, uint8(a.MinRNRTimer), uint8(a.Timeout),
		a.RetryCnt, a.RNRRetry, draining, netip.AddrFrom16(a.AV.DGID), a.AV.SGIDIndex, a.AV.TrafficClass)
	return nil
}
