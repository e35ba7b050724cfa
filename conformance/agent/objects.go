package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// buffer is memory of the agent's own.
type buffer struct{ b []byte }

// queue is a completion queue, with the channel that it reports to if it has one.
type queue struct {
	*verbs.CQ
	channel *verbs.CompletionChannel
}

func (q *queue) Close() error {
	if err := q.CQ.Close(); err != nil || q.channel == nil {
		return err
	}
	return q.channel.Close()
}

func closeObject(o any) error {
	if c, ok := o.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// add gives an object its number, and says it.
func (s *session) add(o any, err error) error {
	if err != nil {
		return err
	}
	if len(s.objects) >= maxObjects {
		return errors.Join(refuse(enomem, "more than %d objects", maxObjects), closeObject(o))
	}
	s.nextID++
	s.objects[s.nextID] = o
	s.say("id=%d", s.nextID)
	return nil
}

var objectCommands = map[string]func(*session) error{
	"pd": (*session).pd, "buf": (*session).buf, "mr": (*session).mr, "rereg": (*session).rereg,
	"mw": (*session).mw, "bind_mw1": (*session).bindMW1, "cq": (*session).cq,
	"resize_cq": (*session).resizeCQ, "notify": (*session).notify, "wait_cq": (*session).waitCQ,
	"srq": (*session).srq, "modify_srq": (*session).modifySRQ, "ah": (*session).ah, "free": (*session).freeOne,
	"gids": (*session).gids, "counters": (*session).counters, "events": (*session).events,
}

func (s *session) dev() *verbs.Device { return s.srv.cfg.Device }

// open answers with what the device can do, under libibverbs' names.
func (s *session) open() error {
	if s.opened {
		return refuse(ebusy, "already open")
	}
	if want := s.str("dev"); want != "" && want != s.srv.cfg.Name {
		return refuse(enodev, "there is no device %.40q; there is %s", want, s.srv.cfg.Name)
	}
	s.opened = true
	a, p := s.dev().Attr(), s.dev().Port()
	const active = 4 // IBV_PORT_ACTIVE
	s.say("dev=%s active_mtu=%d state=%d max_qp=%d max_qp_wr=%d max_sge=%d max_cqe=%d max_mr_size=%d max_qp_rd_atom=%d max_qp_init_rd_atom=%d"+
		" max_srq_wr=%d max_mw=%d max_msg_sz=%d gid_tbl_len=%d", s.srv.cfg.Name, p.ActiveMTU, active, a.MaxQP,
		a.MaxQPWR, a.MaxSGE, a.MaxCQE, a.MaxMRBytes, a.MaxQPRdAtomic, a.MaxQPInitAtomic, a.MaxSRQWR, a.MaxMW,
		a.MaxMsgBytes, p.GIDs)
	ex := uint64(0)
	if a.FlushGlobal {
		ex |= 1 << 38 // IB_UVERBS_DEVICE_FLUSH_GLOBAL
	}
	if a.AtomicWrite {
		ex |= 1 << 40 // IB_UVERBS_DEVICE_ATOMIC_WRITE
	}
	s.say("cap_flags_ex=0x%x lib_flush=1 lib_atomic_write=1", ex)
	return nil
}

func (s *session) pd() error { return s.add(s.dev().AllocPD()) }

func (s *session) buf() error {
	n := s.need("len")
	if s.bad != nil {
		return s.bad
	}
	if n > uint64(s.srv.cfg.MaxBytes) {
		return refuse(enomem, "a buffer of %d bytes", n)
	}
	if err := s.srv.allocate(int64(n)); err != nil {
		return err
	}
	s.bytes += int64(n)
	return s.add(&buffer{make([]byte, n)}, nil)
}

// span is a part of a buffer, which is nil if there is none.
func (s *session) span(b *buffer, off, n uint64) []byte {
	if b == nil {
		return nil
	}
	if size := uint64(len(b.b)); off > size || n > size-off {
		s.complain(refuse(erange, "%d bytes at %d in a buffer of %d", n, off, size))
		return nil
	}
	return b.b[off : off+n]
}

// part is the part of the buffer at the key buf that the arguments off and len name; by default all
// of it from off.
func (s *session) part() []byte {
	b, off := object[*buffer](s, "buf"), s.num("off", 0)
	if b == nil {
		return nil
	}
	return s.span(b, off, s.num("len", uint64(len(b.b))-min(off, uint64(len(b.b)))))
}

func (s *session) mr() error {
	pd, mem, access := object[*verbs.PD](s, "pd"), s.part(), verbs.Access(s.need("access"))
	o := verbs.MROptions{SetIOVA: s.has("iova"), IOVA: s.num("iova", 0)}
	if s.bad != nil {
		return s.bad
	}
	mr, err := pd.RegisterMR(mem, access, &o)
	if err := s.add(mr, err); err != nil {
		return err
	}
	s.say("addr=0x%x lkey=0x%x rkey=0x%x", mr.Addr(), uint32(mr.LKey()), uint32(mr.RKey()))
	return nil
}

func (s *session) rereg() error {
	mr := object[*verbs.MR](s, "mr")
	var c verbs.Rereg
	if s.has("buf") {
		c.Bytes = s.part()
	}
	c.PD = optional[*verbs.PD](s, "pd")
	c.Access, c.SetAccess = verbs.Access(s.num("access", 0)), s.has("access")
	if s.bad != nil {
		return s.bad
	}
	if err := mr.Reregister(c); err != nil {
		return err
	}
	s.say("lkey=0x%x rkey=0x%x", uint32(mr.LKey()), uint32(mr.RKey()))
	return nil
}

func (s *session) mw() error {
	pd, kind := object[*verbs.PD](s, "pd"), s.need("type")
	if s.bad != nil {
		return s.bad
	}
	window, ok := map[uint64]verbs.WindowType{1: verbs.WindowType1, 2: verbs.WindowType2B}[kind]
	if !ok {
		return refuse(einval, "window type %d", kind)
	}
	mw, err := pd.AllocMW(window)
	if err := s.add(mw, err); err != nil {
		return err
	}
	s.say("rkey=0x%x", uint32(mw.RKey()))
	return nil
}

// bindMW1 binds a window of type 1. libibverbs posts that as a work request, whose completion
// there is none of here.
func (s *session) bindMW1() error {
	return refuse(eopnotsupp, "windows of type 1 are not bound by a work request here")
}

func (s *session) cq() error {
	n, channel := s.need("cqe"), s.num("channel", 0) != 0
	if s.bad != nil {
		return s.bad
	}
	q, err := &queue{}, error(nil)
	if channel {
		if q.channel, err = s.dev().CreateCompletionChannel(); err != nil {
			return err
		}
	}
	if q.CQ, err = s.dev().CreateCQ(clampInt(n), &verbs.CQOptions{Channel: q.channel}); err != nil {
		if q.channel != nil {
			err = errors.Join(err, q.channel.Close())
		}
		return err
	}
	if err := s.add(q, nil); err != nil {
		return err
	}
	s.say("cqe=%d", n)
	return nil
}

func (s *session) resizeCQ() error {
	q, n := object[*queue](s, "cq"), s.need("cqe")
	if s.bad != nil {
		return s.bad
	}
	if err := q.Resize(clampInt(n)); err != nil {
		return err
	}
	s.say("cqe=%d", n)
	return nil
}

func (s *session) notify() error {
	q, solicited := object[*queue](s, "cq"), s.num("solicited", 0) != 0
	if s.bad != nil {
		return s.bad
	}
	return q.RequestNotify(solicited)
}

// maxWait is the longest that a request may wait.
const maxWait = 10 * time.Minute

// wait is the time that the argument timeout_ms gives.
func (s *session) wait(def uint64) (context.Context, context.CancelFunc) {
	ms := s.num("timeout_ms", def)
	return context.WithTimeout(s.ctx, min(time.Duration(min(ms, 1<<40))*time.Millisecond, maxWait))
}

func (s *session) waitCQ() error {
	q := object[*queue](s, "cq")
	ctx, cancel := s.wait(1000)
	defer cancel()
	if s.bad != nil {
		return s.bad
	}
	if q.channel == nil {
		return refuse(einval, "the CQ has no channel")
	}
	_, err := q.channel.Get(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.say("event=0")
		return nil
	case err == nil:
		s.say("event=1")
	}
	return err
}

func (s *session) srq() error {
	pd := object[*verbs.PD](s, "pd")
	a := verbs.SRQAttr{MaxWR: s.size("max_wr", 0), MaxSGE: s.size("max_sge", 1), Limit: s.size("limit", 0)}
	if s.bad != nil {
		return s.bad
	}
	return s.add(pd.CreateSRQ(a))
}

func (s *session) modifySRQ() error {
	q := object[*verbs.SRQ](s, "srq")
	if s.bad != nil {
		return s.bad
	}
	now, err := q.Query()
	if err != nil {
		return err
	}
	limit, maxWR := s.size("limit", uint64(now.Limit)), s.size("max_wr", uint64(now.MaxWR))
	if s.bad != nil {
		return s.bad
	}
	return q.Modify(limit, maxWR)
}

// vector reads the arguments of an address vector.
func (s *session) vector() verbs.AddressVector {
	a, err := netip.ParseAddr(s.str("dgid"))
	if err != nil || !a.Is6() {
		s.complain(refuse(einval, "%.60q is not a GID", s.str("dgid")))
		return verbs.AddressVector{}
	}
	return verbs.AddressVector{
		DGID: ib.GID(a.As16()), SGIDIndex: clampInt(s.need("sgid_index")), FlowLabel: uint32(s.num("flow_label", 0)),
		TrafficClass: uint8(s.num("tclass", 0)), HopLimit: uint8(s.num("hop_limit", 64)),
	}
}

func (s *session) ah() error {
	pd, v := object[*verbs.PD](s, "pd"), s.vector()
	if s.bad != nil {
		return s.bad
	}
	return s.add(pd.CreateAH(v))
}

// freeOne frees the objects that the arguments name.
func (s *session) freeOne() error {
	for _, a := range s.args {
		id, err := parseNum(a.Value.(string))
		if err != nil {
			return err
		}
		o, ok := s.objects[id]
		if !ok || kindOf(o) != a.Key {
			return refuse(enoent, "no such object (%d, %.20s)", id, a.Key)
		}
		if err := closeObject(o); err != nil {
			return err
		}
		if b, ok := o.(*buffer); ok {
			s.bytes -= int64(len(b.b))
			s.srv.bytes.Add(-int64(len(b.b)))
		}
		delete(s.objects, id)
	}
	return nil
}

// kindOf is the word for an object.
func kindOf(o any) string {
	switch o.(type) {
	case *verbs.PD:
		return "pd"
	case *buffer:
		return "buf"
	case *verbs.MR:
		return "mr"
	case *verbs.MW:
		return "mw"
	case *queue:
		return "cq"
	case *verbs.SRQ:
		return "srq"
	case *verbs.AH:
		return "ah"
	case *verbs.QP:
		return "qp"
	}
	return ""
}

func (s *session) gids() error {
	for i, g := range s.dev().GIDs() {
		s.say("g=%d,v2,%s", i, netip.AddrFrom16(g))
	}
	return nil
}

// counters are those of the device, under rxe's names where it has them.
func (s *session) counters() error {
	c := s.dev().Counters()
	for _, x := range []struct {
		name string
		n    uint64
	}{
		{"sent_pkts", c.SentPkts}, {"rcvd_pkts", c.RcvdPkts}, {"duplicate_request", c.DuplicateRequest},
		{"out_of_seq_request", c.OutOfSeqRequest}, {"rcvd_rnr_err", c.RcvdRNRErr}, {"send_rnr_err",
			c.SendRNRErr}, {"rcvd_seq_err", c.RcvdSeqErr}, {"retry_exceeded_err", c.RetryExceededErr},
		{"retry_rnr_exceeded_err", c.RetryRNRExceededErr}, {"completer_retry_err", c.CompleterRetryErr},
		{"rdma_sends", c.RDMASends}, {"rdma_recvs", c.RDMARecvs}, {"timeouts", c.Timeouts},
		{"loss_probes", c.LossProbes}, {"implied_naks", c.ImpliedNAKs}, {"sent_seq_naks", c.SentSeqNAKs},
		{"icrc_errors", c.DropICRC}, {"ce_marked", c.CEMarkedPkts}, {"cnps_sent", c.CNPsSent},
		{"cnps_handled", c.CNPsHandled},
	} {
		s.say("%s=%d", x.name, x.n)
	}
	return nil
}

func (s *session) events() error {
	ctx, cancel := s.wait(0)
	defer cancel()
	if s.bad != nil {
		return s.bad
	}
	e, err := s.dev().AsyncEvent(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err == nil {
		s.say("ev=%s", fmt.Sprint(int(e.Type)))
	}
	return err
}
