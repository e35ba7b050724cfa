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

var workCommands = map[string]func(*session) error{"post_send": (*session).postSend, "post_recv": (*session).postRecv, "poll": (*session).poll}

const (
	maxSGEs = 32
	maxWCs  = 256
)

// sges reads the elements: MR:OFF:LEN of a region, or @ADDR:LKEY:LEN as given.
func (s *session) sges() (out []verbs.SGE, err error) {
	for _, text := range s.all("sge") {
		f := strings.Split(text, ":")
		if len(f) != 3 || len(out) == maxSGEs {
			return nil, refuse(einval, "sge %.80q, or more than %d", text, maxSGEs)
		}
		first, raw := strings.CutPrefix(f[0], "@")
		var n [3]uint64
		for i, t := range []string{first, f[1], f[2]} {
			if n[i], err = parseNum(t); err != nil {
				return nil, err
			}
		}
		if n[2] > 1<<32-1 || raw && n[1] > 1<<32-1 {
			return nil, refuse(einval, "sge %.80q", text)
		}
		if raw {
			out = append(out, verbs.SGE{Addr: n[0], LKey: ib.LKey(n[1]), Length: uint32(n[2])})
			continue
		}
		mr, err := get[*verbs.MR](s, n[0])
		if err != nil {
			return nil, err
		}
		out = append(out, verbs.SGE{Addr: mr.Addr() + n[1], LKey: mr.LKey(), Length: uint32(n[2])})
	}
	return out, nil
}

func (s *session) postSend() error {
	qp, err := object[*verbs.QP](s, "qp")
	if err != nil {
		return err
	}
	var op, id, addr, rkey, imm, inv, compare, swap, value, length, qpn, qkey uint64
	flags, plt, sel := uint64(peer.FlagSignaled), uint64(1), uint64(0)
	if err := s.needed(map[string]*uint64{"opcode": &op}); err != nil {
		return err
	}
	if err := s.numbers(map[string]*uint64{"wr_id": &id, "flags": &flags, "remote_addr": &addr, "rkey": &rkey, "imm": &imm, "inv_rkey": &inv,
		"compare_add": &compare, "swap": &swap, "value": &value, "len": &length, "plt": &plt, "sel": &sel, "remote_qpn": &qpn, "remote_qkey": &qkey}); err != nil {
		return err
	}
	code, ok := peer.GoroceOpcode(peer.Opcode(op))
	if !ok {
		return refuse(eopnotsupp, "opcode %d", op)
	}
	sgl, err := s.sges()
	if err != nil {
		return err
	}
	wr := verbs.SendWR{
		ID: id, Opcode: code, Flags: verbs.SendFlags(flags), SGList: sgl, Imm: uint32(imm), InvalidateKey: ib.RKey(inv),
		RemoteAddr: addr, RKey: ib.RKey(rkey), CompareAdd: compare, Swap: swap, FlushLength: uint32(length), FlushType: ib.FETH(plt | sel<<4),
		RemoteQPN: ib.QPN(qpn), RemoteQKey: ib.QKey(qkey),
	}
	binary.LittleEndian.PutUint64(wr.AtomicWriteVal[:], value)
	if s.has("ah") {
		if wr.AH, err = object[*verbs.AH](s, "ah"); err != nil {
			return err
		}
	}
	if code == verbs.WRBindMW {
		if wr.Bind, err = s.bind(rkey, length); err != nil {
			return err
		}
	}
	return qp.PostSend(&wr)
}

// bind reads what a work request binds.
func (s *session) bind(rkey, length uint64) (b verbs.BindMW, err error) {
	if b.MW, err = object[*verbs.MW](s, "mw"); err != nil {
		return b, err
	}
	if b.MR, err = object[*verbs.MR](s, "mr"); err != nil {
		return b, err
	}
	var off, access uint64
	if err := s.numbers(map[string]*uint64{"off": &off, "access": &access}); err != nil {
		return b, err
	}
	b.NewRKey, b.Addr, b.Length, b.Access = ib.RKey(rkey), b.MR.Addr()+off, length, verbs.Access(access)
	return b, nil
}

func (s *session) postRecv() error {
	sgl, err := s.sges()
	if err != nil {
		return err
	}
	id, count := uint64(0), uint64(1)
	if err := s.numbers(map[string]*uint64{"wr_id": &id, "count": &count}); err != nil {
		return err
	}
	var post func(*verbs.RecvWR) error
	if s.has("srq") {
		q, err := object[*verbs.SRQ](s, "srq")
		if err != nil {
			return err
		}
		post = q.PostRecv
	} else {
		qp, err := object[*verbs.QP](s, "qp")
		if err != nil {
			return err
		}
		post = qp.PostRecv
	}
	for i := range count {
		if err := post(&verbs.RecvWR{ID: id + i, SGList: sgl}); err != nil {
			return err
		}
	}
	return nil
}

// poll waits for min completions, and answers what there is, up to max.
func (s *session) poll() error {
	q, err := object[*queue](s, "cq")
	if err != nil {
		return err
	}
	most, least := uint64(64), uint64(1)
	if err := s.numbers(map[string]*uint64{"max": &most, "min": &least}); err != nil {
		return err
	}
	ctx, cancel, err := s.wait(0)
	if err != nil {
		return err
	}
	defer cancel()
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
		s.say("wc=%d,%d,%d,%d,%d,0x%x,0x%x,%d,0x%x", w.ID, int(w.Status), int(w.Opcode), w.VendorErr, w.ByteLen, uint32(w.QPN), uint32(w.SrcQP), int(w.Flags), imm)
	}
	return nil
}
