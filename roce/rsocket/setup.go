package rsocket

import (
	"errors"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// newConn makes everything that a connection needs, for an ID that is about to be connected or
// accepted, and posts its receives. On failure it ends the ID and tells a peer that requested the
// connection that resources ran out.
func newConn(d *verbs.Device, id *rdmacm.ID, ch *rdmacm.EventChannel, cfg Config) (*Conn, error) {
	c := &Conn{dev: d, id: id, ch: ch, cfg: cfg, host: hostOf(d)}
	c.alarm = access.Shard(d).NewAlarm(c.rang)
	c.pourer = access.Shard(d).NewAlarm(c.poured)
	c.rd.init()
	c.wr.init()
	c.cl.init()
	err := id.SetSilenceTimeout(max(cfg.SilenceTimeout, 0))
	if err == nil {
		err = c.allocate()
	}
	if err != nil {
		_ = id.RejectReason(mad.RejectNoResources, nil) // nothing to refuse on the active side
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

// receives are the receive requests to post: all the same, without memory, because the peer only
// writes. They never change.
var receives [pollBatch]verbs.RecvWR

func (c *Conn) allocate() (err error) {
	cfg := &c.cfg
	recvs := cfg.RecvQueue + spareRecvs
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return err
	}
	if c.cq, err = c.dev.CreateCQ(cfg.SendQueue+recvs,
		&verbs.CQOptions{Vector: access.NextVector(c.dev), OnEvent: c.onEvent}); err != nil {
		return err
	}
	if err = c.recv[smallBuffer].register(c.pd, cfg.RecvBuffer, remoteWrite,
		verbs.MROptions{IOVA: recvIOVA, SetIOVA: true}); err != nil {
		return err
	}
	if err = c.list.register(c.pd, grants*sgeBytes+cfg.IOMaps*iomapBytes, remoteWrite,
		verbs.MROptions{IOVA: listIOVA, SetIOVA: true}); err != nil {
		return err
	}
	if err = c.send[smallBuffer].register(c.pd, cfg.SendBuffer, verbs.LocalWrite, verbs.MROptions{}); err != nil {
		return err
	}
	if c.qp, err = c.id.CreateQP(c.pd, verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: c.cq,
		Caps: verbs.QPCaps{
			MaxSendWR: cfg.SendQueue, MaxRecvWR: recvs, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: inlineBytes,
		},
	}); err != nil {
		return err
	}
	for recvs > 0 && err == nil {
		n := min(recvs, len(receives))
		_, err = c.qp.PostRecvBatch(receives[:n])
		recvs -= n
	}
	return err
}

// local returns the connection data for the peer.
func (c *Conn) local() []byte {
	list, recv := c.list.mr, c.recv[smallBuffer].place(smallBuffer)
	d := connData{
		iomap: true, credits: uint16(c.cfg.RecvQueue), iomaps: c.cfg.IOMaps,
		list: sge{list.Addr(), uint32(list.RKey()), grants},
		data: sge{recv.addr, recv.key, uint32(recv.half)},
	}
	var b [connDataBytes]byte
	d.put(&b)
	return b[:]
}

// meet applies the peer's connection data.
func (c *Conn) meet(peer connData) {
	c.s.init(c.cfg.stream(), peer, c.recv[smallBuffer].place(smallBuffer))
}

// start starts the connection, now that both sides are ready to receive.
func (c *Conn) start() {
	c.laddr, c.raddr = Addr{c.id.LocalAddr()}, Addr{c.id.RemoteAddr()}
	c.mu.Lock()
	c.sends = core.Open(c.qp).SendRoom()
	if attr, _, err := c.qp.Query(); err == nil {
		c.s.snd.most = bestTransfer(attr.PathMTU.Bytes())
	}
	c.credit()
	c.mu.Unlock()
	switch gap, caps := c.cfg.KeepAlive, c.dev.Capabilities(); {
	case gap > 0:
		_ = connCore{c}.SetKeepAlive(gap)
	case gap == 0 && (!caps.Virtual || caps.Scheduled):
		_ = connCore{c}.SetKeepAlive(defaultKeepAlive)
	}
}

// unmap gives the memory of mappings back.
func (c *Conn) unmap() error {
	c.mu.Lock() // a Mapping.Close may be in progress
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

// release frees everything, in whatever state it is. It ignores the errors of a closed device.
func (c *Conn) release() error {
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, roce.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if c.id != nil {
		keep(c.id.Close()) // together with the queue pair
	}
	keep(c.unmap())
	if c.cq != nil {
		keep(c.cq.Close())
	}
	for _, bs := range [][]buffer{c.recv[:], c.send[:]} {
		for i := range bs {
			keep(bs[i].release(c.host))
		}
	}
	keep(c.list.release(c.host))
	if c.pd != nil {
		keep(c.pd.Close())
	}
	if c.ch != nil {
		keep(c.ch.Close())
	}
	if c.place != nil {
		c.place.Give()
		c.place = nil
	}
	return errors.Join(errs...)
}
