package peer

import (
	"fmt"
	"net/netip"
)

type agentQP struct {
	s              *agentSession
	id             uint64
	qpn            uint32
	cfg            QPConfig
	sendCQ, recvCQ uint64
	windows        []uint64
}

// The bits of ibv_qp_create_send_ops_flags for the operations of RC that rxe has in
// every version, and for the two that it has since 6.2.
const (
	opsRC          = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9
	opsFlush       = 1 << 11
	opsAtomicWrite = 1 << 12
)

func def(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

func (s *agentSession) QP(cfg QPConfig) (QP, error) {
	q := &agentQP{s: s, cfg: cfg}
	sw, rw := def(cfg.MaxSendWR, 64), def(cfg.MaxRecvWR, 64)
	for _, x := range []struct {
		cq *uint64
		n  int
	}{{&q.sendCQ, sw + 1}, {&q.recvCQ, rw + 1}} {
		r, err := s.c.Call("cq", AgentArg{Key: "cqe", Value: x.n})
		if err != nil {
			return nil, err
		}
		*x.cq = r.Num("id")
	}
	args := []AgentArg{{Key: "pd", Value: s.pd}, {Key: "type", Value: cfg.Type},
		{Key: "send_cq", Value: q.sendCQ}, {Key: "recv_cq", Value: q.recvCQ},
		{Key: "max_send_wr", Value: sw}, {Key: "max_recv_wr", Value: rw}, {Key: "max_send_sge",
			Value: def(cfg.MaxSGE, 4)}, {Key: "max_recv_sge", Value: def(cfg.MaxSGE, 4)}}
	if cfg.Type == RC {
		ops := opsRC
		if s.p.caps.Flush {
			ops |= opsFlush
		}
		if s.p.caps.AtomicWrite {
			ops |= opsAtomicWrite
		}
		if ops != opsRC {
			args = append(args, AgentArg{Key: "ops", Value: ops})
		}
	}
	r, err := s.c.Call("qp", args...)
	if err != nil {
		return nil, err
	}
	qpn, err := r.Bits("qpn", 24)
	if err != nil {
		return nil, err
	}
	q.id, q.qpn = r.Num("id"), uint32(qpn)
	access := cfg.Access
	if !s.p.caps.Flush {
		access &^= AccessFlush
	}
	init := []AgentArg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateInit)},
		{Key: "pkey_index", Value: 0}, {Key: "port", Value: 1}}
	if cfg.Type == UD {
		init = append(init, AgentArg{Key: "qkey", Value: cfg.QKey})
	} else {
		init = append(init, AgentArg{Key: "access", Value: uint32(access)})
	}
	_, err = s.c.Call("modify", init...)
	return q, err
}

func (q *agentQP) QPN() uint32 { return q.qpn }

// mtuCode is ibv_mtu for a path MTU in bytes.
func mtuCode(n int) (int, error) {
	for i, m := range []int{256, 512, 1024, 2048, 4096} {
		if m == n {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("peer: %d is no path MTU", n)
}

// gid returns the GID of an address: IPv4 ones are mapped.
func gid(a netip.Addr) string {
	if a.Is4() {
		return "::ffff:" + a.String()
	}
	return a.String()
}

func (q *agentQP) Connect(c Conn) error { return q.ConnectTo(c, StateRTS) }

func (q *agentQP) ConnectTo(c Conn, to State) error {
	if to == StateInit {
		return nil // as QP left it
	}
	rtr := []AgentArg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateRTR)}}
	rts := []AgentArg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateRTS)}, {Key: "sq_psn", Value: c.SQPSN}}
	if q.cfg.Type != UD {
		mtu, err := mtuCode(c.MTU)
		if err != nil {
			return err
		}
		rtr = append(rtr, AgentArg{Key: "path_mtu", Value: mtu},
			AgentArg{Key: "dest_qpn", Value: c.RemoteQPN}, AgentArg{Key: "rq_psn", Value: c.RQPSN},
			AgentArg{Key: "dgid", Value: gid(c.Remote)}, AgentArg{Key: "sgid_index", Value: q.s.p.gids[c.Family]},
			AgentArg{Key: "flow_label", Value: c.FlowLabel})
	}
	if q.cfg.Type == RC {
		rtr = append(rtr, AgentArg{Key: "max_dest_rd_atomic", Value: c.MaxDestRdAtomic},
			AgentArg{Key: "min_rnr_timer", Value: c.MinRNRTimer})
		rts = append(rts, AgentArg{Key: "timeout", Value: c.Timeout}, AgentArg{Key: "retry_cnt", Value: c.RetryCnt},
			AgentArg{Key: "rnr_retry", Value: c.RNRRetry}, AgentArg{Key: "max_rd_atomic", Value: c.MaxRdAtomic})
	}
	if _, err := q.s.c.Call("modify", rtr...); err != nil || to == StateRTR {
		return err
	}
	_, err := q.s.c.Call("modify", rts...)
	return err
}

func (q *agentQP) SetState(s State) error {
	_, err := q.s.c.Call("modify", AgentArg{Key: "qp", Value: q.id}, AgentArg{Key: "state", Value: int(s)})
	return err
}

func (q *agentQP) State() (State, error) {
	r, err := q.s.c.Call("query", AgentArg{Key: "qp", Value: q.id})
	return State(r.Num("state")), err
}

func (q *agentQP) Close() error {
	for _, x := range []AgentArg{{Key: "qp", Value: q.id}, {Key: "cq", Value: q.sendCQ}, {Key: "cq", Value: q.recvCQ}} {
		if _, err := q.s.c.Call("free", x); err != nil {
			return err
		}
	}
	for _, w := range q.windows {
		if _, err := q.s.c.Call("free", AgentArg{Key: "mw", Value: w}); err != nil {
			return err
		}
	}
	return nil
}
