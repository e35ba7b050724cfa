package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

var workCommands = map[string]func(*session) error{"post_send": (*session).postSend,
	"post_recv": (*session).postRecv, "poll": (*session).poll}

const (
	maxSGEs = 32
	maxWCs  = 256
)

// sges reads the elements: MR:OFF:LEN of a region, or @ADDR:LKEY:LEN as given.
func (s *session) sges() (out []verbs.SGE) {
	for _, text := range s.all("sge") {
		f := strings.Split(text, ":")
		if len(f) != 3 || len(out) == maxSGEs {
			s.complain(refuse(einval, "sge %.80q, or more than %d", text, maxSGEs))
			return nil
		}
		first, raw := strings.CutPrefix(f[0], "@")
		var n [3]uint64
		for i, t := range []string{first, f[1], f[2]} {
			var err error
			if n[i], err = parseNum(t); err != nil {
				s.complain(err)
			}
		}
		if n[2] > 1<<32-1 || raw && n[1] > 1<<32-1 {
			s.complain(refuse(einval, "sge %.80q", text))
		}
		e := verbs.SGE{Addr: n[0], LKey: ib.LKey(n[1]), Length: uint32(n[2])}
		if !raw {
			if mr := get[*verbs.MR](s, n[0]); mr != nil {
				e.Addr, e.LKey = mr.Addr()+n[1], mr.LKey()
			}
		}
		out = append(out, e)
	}
	return out
}

func (s *session) postSend() error {
	qp, op := object[*verbs.QP](s, "qp"), s.need("opcode")
	code, ok := peer.GoroceOpcode(peer.Opcode(op))
	if !ok {
		s.complain(refuse(eopnotsupp, "opcode %d", op))
	}
	rkey, length := s.num("rkey", 0), s.num("len", 0)
	wr := verbs.SendWR{
		ID: s.num("wr_id", 0), Opcode: code,
		Flags: verbs.SendFlags(s.num("flags", uint64(peer.FlagSignaled))), SGList: s.sges(),
		Imm: uint32(s.num("imm", 0)), InvalidateKey: ib.RKey(s.num("inv_rkey", 0)),
		RemoteAddr: s.num("remote_addr", 0), RKey: ib.RKey(rkey), CompareAdd: s.num("compare_add", 0),
		Swap: s.num("swap", 0), FlushLength: uint32(length), FlushType: ib.FETH(s.num("plt", 1) | s.num("sel", 0)<<4),
		RemoteQPN: ib.QPN(s.num("remote_qpn", 0)), RemoteQKey: ib.QKey(s.num("remote_qkey", 0)),
		AH: optional[*verbs.AH](s, "ah"),
	}
	binary.LittleEndian.PutUint64(wr.AtomicWriteVal[:], s.num("value", 0))
	if code == verbs.WRBindMW {
		wr.Bind = s.bind(rkey, length)
	}
	if s.bad != nil {
		return s.bad
	}
	return qp.PostSend(&wr)
}

// bind reads what a work request binds.
func (s *session) bind(rkey, length uint64) verbs.BindMW {
	b := verbs.BindMW{
		MW: object[*verbs.MW](s, "mw"), MR: object[*verbs.MR](s, "mr"),
		NewRKey: ib.RKey(rkey), Length: length, Access: verbs.Access(s.num("access", 0)),
	}
	if off := s.num("off", 0); b.MR != nil {
		b.Addr = b.MR.Addr() + off
	}
	return b
}

func (s *session) postRecv() error {
	sgl, id, count := s.sges(), s.num("wr_id", 0), s.num("count", 1)
	var to interface{ PostRecv(*verbs.RecvWR) error }
	if s.has("srq") {
		to = object[*verbs.SRQ](s, "srq")
	} else {
		to = object[*verbs.QP](s, "qp")
	}
	if s.bad != nil {
		return s.bad
	}
	for i := range count {
		if err := to.PostRecv(&verbs.RecvWR{ID: id + i, SGList: sgl}); err != nil {
			return err
		}
	}
	return nil
}

// poll waits for min completions, and answers what there is, up to max.
func (s *session) poll() error {
	q, most, least := object[*queue](s, "cq"), s.num("max", 64), s.num("min", 1)
	ctx, cancel := s.wait(0)
	defer cancel()
	if s.bad != nil {
		return s.bad
	}
	wcs := make([]verbs.WC, min(most, maxWCs))
	n, err := q.Poll(wcs)
	for err == nil && n < len(wcs) && uint64(n) < least && ctx.Err() == nil {
		var k int
		if k, err = q.Wait(ctx, wcs[n:]); errors.Is(err, context.DeadlineExceeded) {
			err = nil
			break
		}
		n += k
	}
	if err != nil {
		return err
	}
	for _, w := range wcs[:n] {
		imm := w.Imm
		if int(w.Flags)&peer.WCFlagInv != 0 {
			imm = uint32(w.InvKey)
		}
		s.say("wc=%d,%d,%d,%d,%d,0x%x,0x%x,%d,0x%x", w.ID, int(w.Status), int(w.Opcode), w.VendorErr,
			w.ByteLen, uint32(w.QPN), uint32(w.SrcQP), int(w.Flags), imm)
	}
	return nil
}
