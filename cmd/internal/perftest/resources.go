package perftest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// endpoint is one QP of the test with its part of the memory.
type endpoint struct {
	qp   *verbs.QP
	ah   *verbs.AH // UD
	mr   *verbs.MR
	send walk // what is sent from, or read to
	recv walk // what is received to, and what the peer may reach
}

// walk is a series of places in a region that successive messages use in turn.
type walk struct {
	start int // offset in the region, bytes
	step  int
	count int
}

// at returns the offset of message n.
func (w walk) at(n uint64) int { return w.start + int(n%uint64(w.count))*w.step }

// walkOf returns the walk of messages of size bytes through a page, as far as more than one fits.
func walkOf(start, size, cacheLine, cycle int) walk {
	w := walk{start: start, step: spread(size, cacheLine), count: 1}
	if size <= cycle/2 {
		w.count = max(cycle/w.step, 1)
	}
	return w
}

// spread is the distance between messages of size bytes.
func spread(size, cacheLine int) int {
	return max((size+cacheLine-1)/cacheLine*cacheLine, cacheLine)
}

// resources is what a test has made on the device.
type resources struct {
	pd        *verbs.PD
	cq        *verbs.CQ
	idle      *verbs.CQ // polling mode: see session.keepAlive
	srq       *verbs.SRQ
	endpoints []endpoint
	buffers   []*verbs.MappedBuffer
	outReads  int
	qpAccess  roce.Access
	qkey      ib.QKey // UD
}

// recvSize is the size of a receive buffer for messages of size bytes.
func (o *Options) recvSize(size int) int {
	if o.Transport == ib.UD {
		return size + grhBytes
	}
	return size
}

// receives reports whether this side posts receives.
func (o *Options) receives() bool {
	return o.Test.Verb == Send && (o.Test.Latency || !o.Driver() || o.Bidirectional)
}

// access is what the peer may do, to memory and through the QPs.
func (v Verb) access() roce.Access {
	switch v {
	case Write:
		return verbs.LocalWrite | roce.RemoteWrite
	case Read:
		return verbs.LocalWrite | roce.RemoteRead
	case Atomic:
		return verbs.LocalWrite | roce.RemoteAtomic
	}
	return verbs.LocalWrite
}

// allocate makes memory, completion queue and QPs, and the keys to tell the peer.
func (s *session) allocate() error {
	o := s.o
	r := &resources{qpAccess: o.Test.Verb.access(), qkey: defaultQKey}
	if o.CM {
		r.qkey = rdmacm.UDQKey
	}
	s.res = r
	if err := s.limitOutReads(); err != nil {
		return err
	}
	var err error
	if r.pd, err = s.dev.AllocPD(); err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	if r.cq, err = s.dev.CreateCQ((o.TxDepth+o.RxDepth)*o.QPs, nil); err != nil {
		return fmt.Errorf("completion queue: %w", err)
	}
	if o.Polling {
		if r.idle, err = s.dev.CreateCQ(1, nil); err != nil {
			return fmt.Errorf("completion queue: %w", err)
		}
	}
	if o.UseSRQ && o.receives() {
		if r.srq, err = r.pd.CreateSRQ(verbs.SRQAttr{MaxWR: o.RxDepth, MaxSGE: 1}); err != nil {
			return fmt.Errorf("shared receive queue: %w", err)
		}
	}
	r.endpoints = make([]endpoint, o.QPs)
	if err := s.allocateMemory(); err != nil {
		return err
	}
	s.x.mine, s.x.peer = make([]dest, o.QPs), make([]dest, o.QPs)
	if o.CM {
		return nil // the connections bring the QPs
	}
	for i := range r.endpoints {
		if err := s.createQP(&r.endpoints[i]); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	return nil
}

func (s *session) limitOutReads() error {
	r, attr := s.res, s.dev.Attr()
	r.outReads = 1
	if s.o.Test.Verb != Read && s.o.Test.Verb != Atomic {
		return nil
	}
	most := min(attr.MaxQPRdAtomic, attr.MaxQPInitAtomic)
	if r.outReads = s.o.OutReads; r.outReads == 0 {
		r.outReads = most
	}
	if r.outReads > most {
		return fmt.Errorf("-o %d is more than the device's %d outstanding operations", r.outReads, most)
	}
	return nil
}

// allocateMemory gives each QP two parts of a region: one to send from and one
// for the peer. Each is a page at least, so that the walks of both sides fit.
func (s *session) allocateMemory() error {
	o, r, x := s.o, s.res, s.x
	unit := spread(max(o.recvSize(o.Size), x.cycleBuffer), x.cacheLine)
	regions, perRegion := 1, o.QPs
	if o.MRPerQP {
		regions, perRegion = o.QPs, 1
	}
	for g := range regions {
		buf, mr, err := r.pd.AllocBuffer(2*unit*perRegion, o.Test.Verb.access())
		if err != nil {
			return fmt.Errorf("memory of %d bytes: %w", 2*unit*perRegion, err)
		}
		r.buffers = append(r.buffers, buf)
		if o.Test.Verb != Write || !o.Test.Latency {
			// write_lat waits for bytes to change: its memory starts as zeros.
			fillRandom(buf.Bytes())
		}
		for i := range perRegion {
			e := &r.endpoints[g*perRegion+i]
			e.mr = mr
			e.send.start = i * unit
			e.recv.start = (perRegion + i) * unit
		}
	}
	return nil
}

// fillRandom fills b with bytes that do not compress and differ from run to run.
func fillRandom(b []byte) {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	rand.NewChaCha8(seed).Read(b)
}

// walkAs prepares the walks for messages of size bytes.
func (s *session) walkAs(size int) {
	x := s.x
	for i := range s.res.endpoints {
		e := &s.res.endpoints[i]
		e.send = walkOf(e.send.start, size, x.cacheLine, x.cycleBuffer)
		e.recv = walkOf(e.recv.start, s.o.recvSize(size), x.cacheLine, x.cycleBuffer)
	}
}

// createCMQP makes the QP of an ID.
func (s *session) createCMQP(e *endpoint, id *rdmacm.ID) (err error) {
	e.qp, err = id.CreateQP(s.res.pd, s.qpAttr())
	return err
}

func (s *session) qpAttr() verbs.QPInitAttr {
	o, r := s.o, s.res
	caps := verbs.QPCaps{MaxSendWR: o.TxDepth, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: o.InlineSize}
	if o.receives() {
		caps.MaxRecvWR = o.RxDepth
	}
	return verbs.QPInitAttr{Type: o.Transport, SendCQ: r.cq, SRQ: r.srq, Caps: caps}
}

func (s *session) createQP(e *endpoint) (err error) {
	if e.qp, err = s.res.pd.CreateQP(s.qpAttr()); err != nil {
		return err
	}
	if s.o.Transport == ib.UD {
		return e.qp.ToInitUD(s.res.qkey)
	}
	return e.qp.ToInit(s.res.qpAccess)
}

// fillKeys writes down what the peer has to know.
func (s *session) fillKeys() error {
	for i := range s.x.mine {
		e := &s.res.endpoints[i]
		info := e.qp.LocalInfo(s.gidIndex)
		s.x.mine[i] = dest{
			OutReads: uint32(s.res.outReads), QPN: info.QPN, PSN: info.PSN, GID: info.GID,
			RKey: e.mr.RKey(), VAddr: e.mr.Addr() + uint64(e.recv.start),
		}
	}
	return nil
}

// connectQPs moves all QPs on to where they can do what the test needs. The
// side that only answers stays in RTR.
func (s *session) connectQPs() error {
	if s.o.CM {
		return nil // they are
	}
	if mine, theirs := s.x.mine[0].GID.Addr(), s.x.peer[0].GID.Addr(); mine.Is4() != theirs.Is4() {
		return fmt.Errorf(
			"this side speaks from %v, the peer from %v: choose addresses of one family (--addr, -x, --ipv6)",
			mine, theirs)
	}
	for i := range s.res.endpoints {
		if err := s.connectQP(&s.res.endpoints[i], &s.x.peer[i]); err != nil {
			return fmt.Errorf("connect QP %d: %w", i, err)
		}
	}
	return nil
}

func (s *session) connectQP(e *endpoint, peer *dest) error {
	o := s.o
	attr := s.dev.Attr()
	if o.Test.Verb >= Read && o.Driver() && peer.OutReads == 0 {
		return errors.New("the peer takes no READs and atomics at all (-o on its side)")
	}
	c := verbs.ConnAttr{
		SGIDIndex: s.gidIndex, MTU: s.x.mtu,
		Timeout: ib.TimeoutCode(o.QPTimeout), RetryCnt: uint8(o.RetryCount), RNRRetry: rnrRetryForEver,
		MinRNRTimer: minRNRTimer, MaxRdAtomic: uint8(min(int(peer.OutReads), attr.MaxQPInitAtomic, 255)),
		MaxDestRdAtomic: uint8(min(s.res.outReads, attr.MaxQPRdAtomic, 255)),
		TrafficClass:    uint8(o.TrafficClass), FlowLabel: uint32(o.FlowLabel),
	}
	if err := e.qp.ToRTR(verbs.RemoteInfo{QPN: peer.QPN, PSN: peer.PSN, GID: peer.GID}, c); err != nil {
		return err
	}
	if o.Test.Latency || o.Driver() || o.Bidirectional {
		if err := e.qp.ToRTS(c); err != nil {
			return err
		}
	}
	if o.Transport != ib.UD {
		return nil
	}
	var err error
	e.ah, err = s.res.pd.CreateAH(verbs.AddressVector{
		DGID: peer.GID, SGIDIndex: s.gidIndex, FlowLabel: c.FlowLabel, TrafficClass: c.TrafficClass,
	})
	return err
}

// free gives everything back, as far as it was made.
func (r *resources) free() error {
	var errs []error
	for i := range r.endpoints {
		e := &r.endpoints[i]
		if e.qp != nil {
			errs = append(errs, e.qp.Close())
		}
		if e.ah != nil {
			errs = append(errs, e.ah.Close())
		}
		if e.mr != nil && (i == 0 || e.mr != r.endpoints[i-1].mr) {
			errs = append(errs, e.mr.Close())
		}
	}
	if r.idle != nil {
		errs = append(errs, r.idle.Close())
	}
	if r.srq != nil {
		errs = append(errs, r.srq.Close())
	}
	if r.cq != nil {
		errs = append(errs, r.cq.Close())
	}
	for _, b := range r.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// freePD is the last step, when the connections are gone, too.
func (r *resources) freePD() error {
	if r.pd == nil {
		return nil
	}
	return r.pd.Close()
}
