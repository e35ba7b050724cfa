package rdmacm

import (
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// connAttr is what an ID would connect its queue pair with, for tools that do
// it by hand (rdma_init_qp_attr). peer is what the other side said.
func (s *side) connAttr(id *rdmacm.ID, qp *verbs.QP, peer *rdmacm.ConnParam) (verbs.RemoteInfo, verbs.ConnAttr, error) {
	remote := verbs.GID(id.RemoteAddr().Addr().As16())
	sgid, err := s.dev.GIDIndexFor(remote)
	if err != nil {
		return verbs.RemoteInfo{}, verbs.ConnAttr{}, err
	}
	a := verbs.DefaultConnAttr()
	a.SGIDIndex, a.PSN, a.SetPSN = sgid, peer.StartingPSN, true
	a.MaxRdAtomic, a.MaxDestRdAtomic = 1, 1
	a.RetryCnt, a.RNRRetry = peer.RetryCount, peer.RNRRetryCount
	if a.MTU = peer.MTU; a.MTU == 0 { // in a reply
		a.MTU = s.dev.Port().ActiveMTU
	}
	if peer.AckTimeout != 0 {
		a.Timeout = peer.AckTimeout
	}
	return verbs.RemoteInfo{QPN: peer.QPN, PSN: qp.LocalInfo(sgid).PSN, GID: remote}, a, nil
}

// connectQP takes a queue pair that no ID owns to RTS.
func (s *side) connectQP(id *rdmacm.ID, qp *verbs.QP, peer *rdmacm.ConnParam) error {
	remote, a, err := s.connAttr(id, qp, peer)
	if err != nil {
		return err
	}
	if err := qp.ToRTR(remote, a); err != nil {
		return err
	}
	return qp.ToRTS(a)
}
