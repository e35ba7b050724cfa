package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
)

// Command returns the subcommand of tool k.
func Command(k Kind) tool.Command {
	return tool.Command{
		Name: k.Name(), Summary: k.Summary(),
		Run: func(ctx context.Context, env *tool.Env, args []string) error {
			o, err := Parse(k, args)
			if err != nil {
				return err
			}
			return run(ctx, env, o)
		},
	}
}

// session is one run of a tool.
type session struct {
	env *tool.Env
	o   *Options
	dev *roce.Device
	pd  *roce.PD
	cq  *roce.CQ
	srq *roce.SRQ
	mr  *roce.MR
	buf *roce.Buffer

	qps   []*roce.QP
	ah    *roce.AH // UD
	mine  []dest
	peer  []dest
	sge   [1]roce.SGE // what is sent
	wcs   [16]roce.WC
	index map[ib.QPN]int

	posted int     // receives
	owing  []uint8 // for each QP, the completions to wait for before the next message
	sent   int     // completions
	got    int
}

// What a QP waits for before it sends again.
const (
	awaitSend uint8 = 1 << iota
	awaitRecv
)

const idSend, idRecv = 1, 2

func run(ctx context.Context, env *tool.Env, o *Options) (err error) {
	s := &session{env: env, o: o, index: map[ib.QPN]int{}}
	place, err := o.Choose(o.Host, false)
	if err != nil {
		return err
	}
	dev, release, _, err := o.Open(env, place)
	if err != nil {
		return err
	}
	s.dev = dev
	defer func() { err = errors.Join(err, s.free(), release()) }()
	if err := s.allocate(); err != nil {
		return err
	}
	if err := s.postRecvs(); err != nil {
		return err
	}
	s.print("local", s.mine)
	if err := s.introduce(ctx); err != nil {
		return err
	}
	s.print("remote", s.peer)
	elapsed, err := s.bounce(ctx)
	if err != nil {
		return err
	}
	if err := s.report(elapsed); err != nil {
		return err
	}
	return s.check()
}

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
	gids := s.dev.GIDs()
	if o.GIDIndex >= len(gids) {
		return fmt.Errorf("-g %d: the GID table has %d entries (%v); --addr takes several addresses, with commas", o.GIDIndex, len(gids), s.dev.Addrs())
	}
	if mtu := s.dev.Port().ActiveMTU; o.Kind == UD && o.Size > mtu.Bytes() {
		return fmt.Errorf("-s %d is more than the MTU of %d: a UD message is one packet", o.Size, mtu.Bytes())
	} else if o.Kind != UD && o.MTU > mtu {
		return fmt.Errorf("-m %d is more than the port's MTU of %d: choose a smaller one on both sides", o.MTU.Bytes(), mtu.Bytes())
	}
	var err error
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	if s.buf, s.mr, err = s.pd.AllocBuffer(o.Size+o.offset(), roce.LocalWrite); err != nil {
		return fmt.Errorf("memory of %d bytes: %w", o.Size, err)
	}
	s.fill()
	s.sge[0] = s.mr.SGE(o.offset(), o.Size)
	if s.cq, err = s.dev.CreateCQ(o.RxDepth+o.QPs, nil); err != nil {
		return fmt.Errorf("completion queue: %w", err)
	}
	if o.Kind == SRQ {
		if s.srq, err = s.pd.CreateSRQ(roce.SRQAttr{MaxWR: o.RxDepth, MaxSGE: 1}); err != nil {
			return fmt.Errorf("shared receive queue: %w", err)
		}
	}
	for range o.QPs {
		qp, err := s.pd.CreateQP(roce.QPInitAttr{
			Type: o.Kind.transport(), SendCQ: s.cq, SRQ: s.srq,
			Caps: roce.QPCaps{MaxSendWR: 1, MaxRecvWR: o.RxDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
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
		info := qp.LocalInfo(o.GIDIndex)
		s.mine = append(s.mine, dest{QPN: info.QPN, PSN: info.PSN, GID: info.GID})
	}
	s.owing = make([]uint8, o.QPs)
	return nil
}

// fill fills the buffer as the originals do; with -c the client marks the
// beginning of each page.
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
	wr := roce.RecvWR{ID: idRecv, SGList: []roce.SGE{s.mr.SGE(0, s.mr.Len())}}
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

func (s *session) print(side string, dests []dest) {
	if s.o.JSON {
		return
	}
	for _, d := range dests {
		label, sep := "remote address:", ","
		if side == "local" {
			if label = "local address: "; s.o.Kind == UD {
				sep = ":" // as the original
			}
		}
		fmt.Fprintf(s.env.Stdout, "  %s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %s\n", label, d.LID, uint32(d.QPN), uint32(d.PSN), sep, cGID(d.GID))
	}
}

// introduce exchanges addresses and connects the QPs.
func (s *session) introduce(ctx context.Context) error {
	conn, err := s.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if conn.Client() {
		if err := s.sendDests(conn); err != nil {
			return err
		}
		if err := s.readDests(conn); err != nil {
			return err
		}
		if err := conn.Write("goodbye", []byte("done\x00")); err != nil {
			return err
		}
		return s.connect()
	}
	if err := s.readDests(conn); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.sendDests(conn); err != nil {
		return err
	}
	return conn.Read("the client's goodbye", make([]byte, len("done\x00")))
}

func (s *session) meet(ctx context.Context) (*oob.Conn, error) {
	if s.o.Host != "" {
		return oob.Dial(ctx, s.o.Host, s.o.Port, netip.Addr{})
	}
	l, err := oob.Listen(ctx, s.o.Port, netip.Addr{})
	if err != nil {
		return nil, err
	}
	if s.env.Listening != nil {
		s.env.Listening(l.Addr())
	}
	return l.Accept(ctx)
}

// messages is how many addresses are exchanged: srq_pingpong always sends its
// whole table.
func (o *Options) messages() int {
	if o.Kind == SRQ {
		return maxQPs
	}
	return 1
}

func (s *session) sendDests(conn *oob.Conn) error {
	var all []byte
	for i := range s.o.messages() {
		d := dest{}
		if i < len(s.mine) {
			d = s.mine[i]
		}
		all = d.append(all)
	}
	// One write for each, as a peer reads them.
	for ; len(all) > 0; all = all[destBytes:] {
		if err := conn.Write("addresses", all[:destBytes]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) readDests(conn *oob.Conn) error {
	msg := make([]byte, destBytes)
	for i := range s.o.messages() {
		if err := conn.Read("the peer's addresses", msg); err != nil {
			return err
		}
		d, err := parseDest(msg)
		if err != nil {
			return err
		}
		if i < s.o.QPs {
			s.peer = append(s.peer, d)
		}
	}
	return nil
}

// connect takes all QPs to RTS.
func (s *session) connect() error {
	o := s.o
	for i, qp := range s.qps {
		d := s.peer[i]
		if d.QPN == 0 {
			return fmt.Errorf("the peer has fewer than %d QPs: give -q the same number on both sides", o.QPs)
		}
		if d.GID.IsZero() {
			return errors.New("the peer gave no GID: on its side choose one with -g (on rdma_rxe, -g 1 is the IPv4 one)")
		}
		if mine, theirs := s.mine[i].GID.Addr(), d.GID.Addr(); mine.Is4() != theirs.Is4() {
			return fmt.Errorf("this side speaks from %v, the peer from %v: choose addresses of one family (--addr here, -g)", mine, theirs)
		}
		c := roce.ConnAttr{
			SGIDIndex: o.GIDIndex, MTU: o.MTU, Timeout: timeout, RetryCnt: retryCount, RNRRetry: retryCount,
			MinRNRTimer: minRNRTimer, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		}
		if err := qp.ToRTR(roce.RemoteInfo{QPN: d.QPN, PSN: d.PSN, GID: d.GID}, c); err != nil {
			return fmt.Errorf("connect to %s: %w", cGID(d.GID), err)
		}
		if err := qp.ToRTS(c); err != nil {
			return fmt.Errorf("connect to %s: %w", cGID(d.GID), err)
		}
	}
	if o.Kind == UD {
		var err error
		s.ah, err = s.pd.CreateAH(roce.AddressVector{DGID: s.peer[0].GID, SGIDIndex: o.GIDIndex})
		return err
	}
	return nil
}

// send posts a message on a QP.
func (s *session) send(i int) error {
	wr := roce.SendWR{ID: idSend, Opcode: roce.WRSend, Flags: roce.SendSignaled, SGList: s.sge[:]}
	if s.o.Kind == UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah.Handle(), s.peer[0].QPN, qkey
	}
	if err := s.qps[i].PostSend(&wr); err != nil {
		return fmt.Errorf("post message %d: %w", s.sent+1, err)
	}
	s.owing[i] = awaitSend | awaitRecv
	return nil
}

// bounce sends messages back and forth. The client sends first on every QP.
func (s *session) bounce(ctx context.Context) (time.Duration, error) {
	for i := range s.owing {
		s.owing[i] = awaitRecv
		if s.o.Host != "" {
			if err := s.send(i); err != nil {
				return 0, err
			}
		}
	}
	progress := tool.NewProgress(s.env, s.o.Kind.Name(), uint64(s.o.Iters), s.o.Size)
	defer progress.Done()
	start := time.Now()
	for s.got < s.o.Iters || s.sent < s.o.Iters {
		n, err := s.wait(ctx)
		if err != nil {
			return 0, err
		}
		for i := range s.wcs[:n] {
			if err := s.complete(&s.wcs[i]); err != nil {
				return 0, err
			}
		}
		progress.Update(uint64(s.got))
	}
	return time.Since(start), nil
}

// wait returns one completion at least.
func (s *session) wait(ctx context.Context) (int, error) {
	n, err := s.cq.Poll(s.wcs[:])
	for i := 0; n == 0 && err == nil && i < tool.Spins && !s.o.Events; i++ {
		runtime.Gosched()
		n, err = s.cq.Poll(s.wcs[:])
	}
	if n == 0 && err == nil {
		n, err = s.cq.Wait(ctx, s.wcs[:])
	}
	if err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return n, err
}

func (s *session) complete(wc *roce.WC) error {
	if wc.Status != roce.WCSuccess {
		hint := ""
		if wc.Status == roce.WCRetryExcErr {
			hint = "; the peer does not answer: has it ended, can UDP port 4791 reach it, does its MTU fit (-m)?"
		}
		return fmt.Errorf("failed status %v (%d) for wr_id %d, vendor error %#x, on QP %v%s: %w",
			wc.Status, wc.Status, wc.ID, wc.VendorErr, wc.QPN, hint, roce.WCError(wc))
	}
	i, ok := s.index[wc.QPN]
	if !ok {
		return fmt.Errorf("completion for QP %v, which is not ours", wc.QPN)
	}
	if wc.ID == idSend {
		s.sent++
		s.owing[i] &^= awaitSend
	} else {
		s.got++
		s.posted--
		s.owing[i] &^= awaitRecv
		if s.posted <= s.o.QPs {
			if err := s.postRecvs(); err != nil {
				return err
			}
		}
	}
	if s.sent < s.o.Iters && s.owing[i] == 0 {
		return s.send(i)
	}
	return nil
}

// result is what --json prints.
type result struct {
	Test     string  `json:"test"`
	Role     string  `json:"role"`
	Local    []peer  `json:"local"`
	Remote   []peer  `json:"remote"`
	Size     int     `json:"size"` // bytes
	Iters    int     `json:"iterations"`
	Bytes    int64   `json:"bytes"` // both directions
	Seconds  float64 `json:"seconds"`
	Mbit     float64 `json:"mbit_per_sec"`
	UsecIter float64 `json:"usec_per_iter"`
}

type peer struct {
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

func peers(dests []dest) []peer {
	var out []peer
	for _, d := range dests {
		out = append(out, peer{uint32(d.QPN), uint32(d.PSN), cGID(d.GID)})
	}
	return out
}

func (s *session) report(elapsed time.Duration) error {
	o := s.o
	usec := float64(elapsed) / 1000
	r := result{
		Test: o.Kind.Name(), Role: "server", Local: peers(s.mine), Remote: peers(s.peer), Size: o.Size, Iters: o.Iters,
		Bytes: int64(o.Size) * int64(o.Iters) * 2, Seconds: elapsed.Seconds(), UsecIter: usec / float64(o.Iters),
	}
	r.Mbit = float64(r.Bytes) * 8 / usec
	if o.Host != "" {
		r.Role = "client"
	}
	if o.JSON {
		return tool.WriteJSON(s.env.Stdout, r)
	}
	fmt.Fprintf(s.env.Stdout, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, r.Mbit)
	fmt.Fprintf(s.env.Stdout, "%d iters in %.2f seconds = %.2f usec/iter\n", r.Iters, r.Seconds, r.UsecIter)
	return nil
}

// check is -c on the server: the client marked the first byte of each page.
func (s *session) check() error {
	if !s.o.Check || s.o.Host != "" {
		return nil
	}
	b := s.buf.Bytes()[s.o.offset():]
	for i := 0; i < len(b); i += checkEvery {
		if b[i] != mark {
			return fmt.Errorf("invalid data in page %d: %#x instead of %#x", i/checkEvery, b[i], mark)
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
		errs = append(errs, s.ah.Destroy())
	}
	if s.srq != nil {
		errs = append(errs, s.srq.Close())
	}
	if s.cq != nil {
		errs = append(errs, s.cq.Close())
	}
	if s.mr != nil {
		errs = append(errs, s.mr.Deregister(), s.buf.Free())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Dealloc())
	}
	return errors.Join(errs...)
}
