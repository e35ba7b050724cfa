package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

type goroceQP struct {
	s              *goroceSession
	qp             *verbs.QP
	cfg            QPConfig
	sendCQ, recvCQ *verbs.CQ
	ahs            map[netip.Addr]*verbs.AH
	windows        []*verbs.MW
	closed         bool
}

func (s *goroceSession) QP(cfg QPConfig) (QP, error) {
	q := &goroceQP{s: s, cfg: cfg, ahs: map[netip.Addr]*verbs.AH{}}
	var err error
	if q.sendCQ, err = s.p.dev.CreateCQ(def(cfg.MaxSendWR, 64)+1, nil); err != nil {
		return nil, err
	}
	if q.recvCQ, err = s.p.dev.CreateCQ(def(cfg.MaxRecvWR, 64)+1, nil); err != nil {
		return nil, errors.Join(err, q.sendCQ.Close())
	}
	typ := map[Type]ib.Transport{RC: verbs.RC, UC: verbs.UC, UD: verbs.UD}[cfg.Type]
	q.qp, err = s.pd.CreateQP(verbs.QPInitAttr{
		Type: typ, SendCQ: q.sendCQ, RecvCQ: q.recvCQ,
		Caps: verbs.QPCaps{MaxSendWR: def(cfg.MaxSendWR, 64), MaxRecvWR: def(cfg.MaxRecvWR, 64),
			MaxSendSGE: def(cfg.MaxSGE, 4), MaxRecvSGE: def(cfg.MaxSGE, 4)},
	})
	if err == nil && cfg.Type == UD {
		err = q.qp.ToInitUD(ib.QKey(cfg.QKey))
	} else if err == nil {
		err = q.qp.ToInit(roce.Access(cfg.Access))
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	s.qps = append(s.qps, q)
	return q, nil
}

func (q *goroceQP) QPN() uint32 { return uint32(q.qp.Num()) }

func (q *goroceQP) Connect(c Conn) error { return q.ConnectTo(c, StateRTS) }

func (q *goroceQP) ConnectTo(c Conn, to State) error {
	if to == StateInit {
		return nil // as QP left it
	}
	sgid, err := q.s.p.dev.GIDIndexFor(ib.GIDFromAddr(c.Remote))
	if err != nil {
		return err
	}
	mtu, ok := ib.MTUFromBytes(c.MTU)
	if !ok {
		return fmt.Errorf("peer: %d is no path MTU", c.MTU)
	}
	a := verbs.ConnAttr{
		SGIDIndex: sgid, MTU: mtu, FlowLabel: c.FlowLabel, Timeout: ib.TimeoutCode(c.Timeout),
		RetryCnt: uint8(c.RetryCnt), RNRRetry: uint8(c.RNRRetry), MinRNRTimer: ib.RNRCode(c.MinRNRTimer),
		MaxRdAtomic: uint8(c.MaxRdAtomic), MaxDestRdAtomic: uint8(c.MaxDestRdAtomic),
		PSN: ib.PSN(c.SQPSN), SetPSN: true,
	}
	remote := verbs.RemoteInfo{QPN: ib.QPN(c.RemoteQPN), PSN: ib.PSN(c.RQPSN), GID: ib.GIDFromAddr(c.Remote)}
	if err := q.qp.ToRTR(remote, a); err != nil || to == StateRTR {
		return err
	}
	return q.qp.ToRTS(a)
}

func (q *goroceQP) SetState(s State) error {
	return q.qp.Modify(verbs.QPAttr{State: verbs.QPState(s)}, verbs.AttrState)
}

func (q *goroceQP) State() (State, error) { return State(q.qp.State()), nil }

func goroceSGL(sgl []SGE) []verbs.SGE {
	var out []verbs.SGE
	for _, e := range sgl {
		if e.Raw {
			out = append(out, verbs.SGE{Addr: e.Addr, LKey: ib.LKey(e.LKey), Length: uint32(e.Len)})
			continue
		}
		out = append(out, e.MR.(*goroceMR).mr.SGE(e.Off, e.Len))
	}
	return out
}

var goroceOps = map[Opcode]verbs.WROpcode{
	OpWrite: verbs.WRWrite, OpWriteImm: verbs.WRWriteImm, OpSend: verbs.WRSend, OpSendImm: verbs.WRSendImm,
	OpRead: verbs.WRRead, OpCmpSwap: verbs.WRCompareSwap, OpFetchAdd: verbs.WRFetchAdd,
	OpLocalInv: verbs.WRLocalInv, OpSendInv: verbs.WRSendInv, OpFlush: verbs.WRFlush,
	OpAtomicWrite: verbs.WRAtomicWrite,
}

// GoroceOpcode is this module's name of an opcode; false if it has none.
func GoroceOpcode(op Opcode) (verbs.WROpcode, bool) {
	if op == OpBindMW {
		return verbs.WRBindMW, true
	}
	c, ok := goroceOps[op]
	return c, ok
}

func (q *goroceQP) PostSend(wr SendWR) error {
	op, ok := goroceOps[wr.Op]
	if !ok {
		return fmt.Errorf("peer: no work request for %v", wr.Op)
	}
	w := verbs.SendWR{
		ID: wr.ID, Opcode: op, Flags: verbs.SendFlags(wr.Flags), SGList: goroceSGL(wr.SGL),
		Imm: wr.Imm, InvalidateKey: ib.RKey(wr.InvKey), RemoteAddr: wr.RemoteAddr, RKey: ib.RKey(wr.RKey),
		CompareAdd: wr.CompareAdd, Swap: wr.Swap, AtomicWriteVal: wr.Value,
		FlushLength: uint32(wr.FlushLen), FlushType: ib.FETH(wr.FlushPLT | wr.FlushSEL<<4),
		RemoteQPN: ib.QPN(wr.RemoteQPN), RemoteQKey: ib.QKey(wr.RemoteQKey),
	}
	if q.cfg.Type == UD {
		ah, err := q.ah(wr.Remote)
		if err != nil {
			return err
		}
		w.AH = ah
	}
	return q.qp.PostSend(&w)
}

func (q *goroceQP) ah(to netip.Addr) (*verbs.AH, error) {
	if ah, ok := q.ahs[to]; ok {
		return ah, nil
	}
	ah, err := q.s.pd.CreateAHTo(ib.GIDFromAddr(to))
	if err == nil {
		q.ahs[to] = ah
	}
	return ah, err
}

func (q *goroceQP) PostRecv(wr RecvWR) error {
	return q.qp.PostRecv(&verbs.RecvWR{ID: wr.ID, SGList: goroceSGL(wr.SGL)})
}

func (q *goroceQP) PollSend(n int, wait time.Duration) ([]WC, error) {
	return pollGoroce(q.sendCQ, n, wait)
}

func (q *goroceQP) PollRecv(n int, wait time.Duration) ([]WC, error) {
	return pollGoroce(q.recvCQ, n, wait)
}

// pollGoroce waits, unless wait is 0: then it looks, so that a device in virtual time stays where
// it is.
func pollGoroce(cq *verbs.CQ, n int, wait time.Duration) ([]WC, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var out []WC
	buf := make([]verbs.WC, n)
	for len(out) < n {
		k, err := 0, error(nil)
		if wait <= 0 {
			k, err = cq.Poll(buf[:n-len(out)])
		} else {
			k, err = cq.Wait(ctx, buf[:n-len(out)])
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for _, w := range buf[:k] {
			wc := WC{ID: w.ID, Status: Status(w.Status), Opcode: int(w.Opcode), ByteLen: int(w.ByteLen),
				QPN: uint32(w.QPN), SrcQP: uint32(w.SrcQP), Flags: int(w.Flags), Imm: w.Imm}
			if wc.Flags&WCFlagInv != 0 {
				wc.Imm = uint32(w.InvKey)
			}
			out = append(out, wc)
		}
		if wait <= 0 && k == 0 {
			return out, nil
		}
	}
	return out, nil
}

func (q *goroceQP) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	var errs []error
	if q.qp != nil {
		errs = append(errs, q.qp.Close())
	}
	errs = append(errs, q.sendCQ.Close(), q.recvCQ.Close())
	for _, ah := range q.ahs {
		errs = append(errs, ah.Close())
	}
	for _, w := range q.windows {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
