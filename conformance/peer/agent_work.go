package peer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

func sgeArgs(sgl []SGE) []AgentArg {
	var out []AgentArg
	for _, e := range sgl {
		v := fmt.Sprintf("@%#x:%#x:%d", e.Addr, e.LKey, e.Len)
		if !e.Raw {
			v = fmt.Sprintf("%d:%d:%d", e.MR.(*agentMR).id, e.Off, e.Len)
		}
		out = append(out, AgentArg{Key: "sge", Value: v})
	}
	return out
}

func (q *agentQP) PostSend(wr SendWR) error {
	args := []AgentArg{{Key: "qp", Value: q.id}, {Key: "wr_id", Value: wr.ID},
		{Key: "opcode", Value: int(wr.Op)}, {Key: "flags", Value: wr.Flags}}
	args = append(args, sgeArgs(wr.SGL)...)
	add := func(k string, v any) { args = append(args, AgentArg{Key: k, Value: v}) }
	switch wr.Op {
	case OpWrite, OpWriteImm, OpRead, OpFlush, OpAtomicWrite, OpCmpSwap, OpFetchAdd:
		add("remote_addr", wr.RemoteAddr)
		add("rkey", wr.RKey)
	}
	switch wr.Op {
	case OpSendImm, OpWriteImm:
		add("imm", wr.Imm)
	case OpSendInv, OpLocalInv:
		add("inv_rkey", wr.InvKey)
	case OpCmpSwap, OpFetchAdd:
		add("compare_add", wr.CompareAdd)
		add("swap", wr.Swap)
	case OpAtomicWrite:
		add("value", binary.LittleEndian.Uint64(wr.Value[:]))
	case OpFlush:
		add("len", wr.FlushLen)
		add("plt", wr.FlushPLT)
		add("sel", wr.FlushSEL)
	}
	if q.cfg.Type == UD {
		ah, err := q.s.ah(wr.Family, wr.Remote)
		if err != nil {
			return err
		}
		add("ah", ah)
		add("remote_qpn", wr.RemoteQPN)
		add("remote_qkey", wr.RemoteQKey)
	}
	_, err := q.s.c.Call("post_send", args...)
	return err
}

// ah returns an address handle, made on first use.
func (s *agentSession) ah(f Family, a netip.Addr) (uint64, error) {
	key := string(f) + a.String()
	if id, ok := s.ahs[key]; ok {
		return id, nil
	}
	r, err := s.c.Call("ah", AgentArg{Key: "pd", Value: s.pd}, AgentArg{Key: "dgid", Value: gid(a)},
		AgentArg{Key: "sgid_index", Value: s.p.gids[f]})
	if err != nil {
		return 0, err
	}
	s.ahs[key] = r.Num("id")
	return s.ahs[key], nil
}

func (q *agentQP) PostRecv(wr RecvWR) error {
	args := append([]AgentArg{{Key: "qp", Value: q.id}, {Key: "wr_id", Value: wr.ID}}, sgeArgs(wr.SGL)...)
	_, err := q.s.c.Call("post_recv", args...)
	return err
}

func (q *agentQP) PollSend(n int, wait time.Duration) ([]WC, error) {
	return q.s.poll(q.sendCQ, n, wait)
}

func (q *agentQP) PollRecv(n int, wait time.Duration) ([]WC, error) {
	return q.s.poll(q.recvCQ, n, wait)
}

// kernelWithInv is the kernel's IB_WC_WITH_INVALIDATE, which rxe shows to user space
// unchanged although ibv_wc_flags has another bit for it (seen on 6.1 and 6.12).
const kernelWithInv = 1 << 2

func (s *agentSession) poll(cq uint64, n int, wait time.Duration) ([]WC, error) {
	list, err := s.c.Poll(cq, n, n, wait)
	for i := range list {
		if w := &list[i]; w.Flags&kernelWithInv != 0 && s.p.at.Profile == ProfileRXE {
			w.Flags = w.Flags&^kernelWithInv | WCFlagInv
		}
	}
	return list, err
}
