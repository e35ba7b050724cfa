package ibverbs

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/verbs"
)

// offset is where the message begins in the buffer: UD receives the GRH first.
func (o *Options) offset() int {
	if o.Kind == UD {
		return grhBytes
	}
	return 0
}

// allocate makes everything on the device, up to QPs in INIT.
func (s *session) allocate() error {
	o := s.o
	var err error
	if s.gidIndex, err = tool.GIDIndex("-g", o.GIDIndex, s.dev.Addrs()); err != nil {
		return err
	}
	if mtu := s.dev.Port().ActiveMTU; o.Kind == UD && o.Size > mtu.Bytes() {
		return fmt.Errorf("-s %d is more than the MTU of %d: a UD message is one packet", o.Size, mtu.Bytes())
	} else if o.Kind != UD && o.MTU > mtu {
		return fmt.Errorf("-m %d is more than the port's MTU of %d: choose a smaller one on both sides",
			o.MTU.Bytes(), mtu.Bytes())
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	if s.buf, s.mr, err = s.pd.AllocBuffer(o.Size+o.offset(), verbs.LocalWrite); err != nil {
		return fmt.Errorf("memory of %d bytes: %w", o.Size, err)
	}
	s.fill()
	s.sge[0] = s.mr.SGE(o.offset(), o.Size)
	if s.cq, err = s.dev.CreateCQ(o.RxDepth+o.QPs, nil); err != nil {
		return fmt.Errorf("completion queue: %w", err)
	}
	if o.Kind == SRQ {
		if s.srq, err = s.pd.CreateSRQ(verbs.SRQAttr{MaxWR: o.RxDepth, MaxSGE: 1}); err != nil {
			return fmt.Errorf("shared receive queue: %w", err)
		}
	}
	for range o.QPs {
		qp, err := s.pd.CreateQP(verbs.QPInitAttr{
			Type: o.Kind.transport(), SendCQ: s.cq, SRQ: s.srq,
			Caps: verbs.QPCaps{MaxSendWR: 1, MaxRecvWR: o.RxDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return fmt.Errorf("queue pair: %w", err)
		}
		s.index[qp.Num()] = len(s.qps)
		s.qps = append(s.qps, qp)
		if o.Kind == UD {
			err = qp.ToInitUD(qkey)
		} else {
			err = qp.ToInit(0)
		}
		if err != nil {
			return fmt.Errorf("queue pair %v to INIT: %w", qp.Num(), err)
		}
		info := qp.LocalInfo(s.gidIndex)
		s.mine = append(s.mine, dest{QPN: info.QPN, PSN: info.PSN, GID: info.GID})
	}
	s.owing = make([]uint8, o.QPs)
	return nil
}

// fill fills the buffer as the originals do; with -c the client marks the beginning of each page.
func (s *session) fill() {
	b := s.buf.Bytes()
	if s.o.Kind != SRQ {
		copy(b, bytes.Repeat([]byte{fill}, len(b)))
	}
	if s.o.Check && s.o.Host != "" {
		for i := s.o.offset(); i < len(b); i += checkEvery {
			b[i] = mark
		}
	}
}

// mark is what the originals write to the first byte of each page for -c.
const mark = 0

// postRecvs fills the receive queue.
func (s *session) postRecvs() error {
	wr := verbs.RecvWR{ID: idRecv, SGList: []verbs.SGE{s.mr.SGE(0, s.mr.Len())}}
	for ; s.posted < s.o.RxDepth; s.posted++ {
		var err error
		if s.srq != nil {
			err = s.srq.PostRecv(&wr)
		} else {
			err = s.qps[0].PostRecv(&wr)
		}
		if err != nil {
			return fmt.Errorf("post receive: %w", err)
		}
	}
	return nil
}

// free gives everything back, as far as it was made.
func (s *session) free() error {
	var errs []error
	for _, qp := range s.qps {
		errs = append(errs, qp.Close())
	}
	if s.ah != nil {
		errs = append(errs, s.ah.Close())
	}
	if s.srq != nil {
		errs = append(errs, s.srq.Close())
	}
	if s.cq != nil {
		errs = append(errs, s.cq.Close())
	}
	if s.mr != nil {
		errs = append(errs, s.mr.Close(), s.buf.Close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	return errors.Join(errs...)
}
