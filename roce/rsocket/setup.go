package rsocket

import (
	"errors"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// newConn makes everything that a connection needs for an ID that is about to
// be connected or accepted, and posts its receives. If it fails it ends the ID;
// who has asked for the connection is told that there is no room.
func newConn(d *verbs.Device, id *rdmacm.ID, ch *rdmacm.EventChannel, cfg Config) (*Conn, error) {
	c := &Conn{dev: d, id: id, ch: ch, cfg: cfg, host: hostOf(d), gone: make(chan struct{})}
	c.alarm = access.Shard(d).NewAlarm(c.rang)
	c.rd.init()
	c.wr.init()
	c.cl.init()
	if err := c.allocate(); err != nil {
		_ = id.RejectReason(mad.RejectNoResources, nil) // nothing to refuse on the active side
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

func (c *Conn) allocate() (err error) {
	cfg := &c.cfg
	recvs := cfg.RecvQueue + spareRecvs
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return err
	}
	if c.cq, err = c.dev.CreateCQ(cfg.SendQueue+recvs, nil); err != nil {
		return err
	}
	c.rbuf = make([]byte, cfg.RecvBuffer)
	c.sbuf = make([]byte, cfg.SendBuffer)
	c.list = make([]byte, grants*sgeBytes+cfg.IOMaps*iomapBytes)
	const remote = verbs.LocalWrite | roce.RemoteWrite
	if c.rmr, err = c.pd.RegisterMRWith(c.rbuf, remote, verbs.MROptions{IOVA: recvIOVA, SetIOVA: true}); err != nil {
		return err
	}
	if c.lmr, err = c.pd.RegisterMRWith(c.list, remote, verbs.MROptions{IOVA: listIOVA, SetIOVA: true}); err != nil {
		return err
	}
	if c.smr, err = c.pd.RegisterMR(c.sbuf, verbs.LocalWrite); err != nil {
		return err
	}
	if c.qp, err = c.id.CreateQP(c.pd, verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: c.cq, SigAll: true,
		Caps: verbs.QPCaps{
			MaxSendWR: cfg.SendQueue, MaxRecvWR: recvs, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: inlineBytes,
		},
	}); err != nil {
		return err
	}
	for recvs > 0 && err == nil {
		n := min(recvs, len(c.recvs))
		_, err = c.qp.PostRecvBatch(c.recvs[:n])
		recvs -= n
	}
	return err
}

// local is what the peer is told.
func (c *Conn) local() []byte {
	d := connData{
		iomap: true, credits: uint16(c.cfg.RecvQueue), iomaps: c.cfg.IOMaps,
		list: sge{c.lmr.Addr(), uint32(c.lmr.RKey()), grants},
		data: sge{c.rmr.Addr(), uint32(c.rmr.RKey()), uint32(c.cfg.RecvBuffer / 2)},
	}
	var b [connDataBytes]byte
	d.put(&b)
	return b[:]
}

// meet takes over what the peer said.
func (c *Conn) meet(peer connData) {
	c.s.init(c.cfg.stream(), peer, c.rmr.Addr(), uint32(c.rmr.RKey()))
}

// start lets the connection go, now that both sides are ready to receive.
func (c *Conn) start() {
	c.laddr, c.raddr = Addr{c.id.LocalAddr()}, Addr{c.id.RemoteAddr()}
	c.mu.Lock()
	c.credit()
	c.mu.Unlock()
	switch gap, caps := c.cfg.KeepAlive, c.dev.Capabilities(); {
	case gap > 0:
		_ = c.SetKeepAlive(gap)
	case gap == 0 && (!caps.Virtual || caps.Scheduled):
		_ = c.SetKeepAlive(defaultKeepAlive)
	}
}

// unmap gives the memory of mappings back.
func (c *Conn) unmap() error {
	c.mu.Lock() // somebody may be in Mapping.Close
	maps := c.maps
	c.maps = nil
	c.mu.Unlock()
	var errs []error
	for _, m := range maps {
		if err := m.mr.Close(); err != nil && !errors.Is(err, roce.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// release gives everything back, in whatever state it is. Errors are those of a
// device that is closed, and of no interest then.
func (c *Conn) release() error {
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, roce.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if c.id != nil {
		keep(c.id.Close()) // with it goes the queue pair
	}
	keep(c.unmap())
	if c.cq != nil {
		keep(c.cq.Close())
	}
	for _, mr := range []*verbs.MR{c.rmr, c.lmr, c.smr} {
		if mr != nil {
			keep(mr.Close())
		}
	}
	if c.pd != nil {
		keep(c.pd.Close())
	}
	if c.ch != nil {
		keep(c.ch.Close())
	}
	c.rbuf, c.sbuf, c.list = nil, nil, nil
	return errors.Join(errs...)
}
