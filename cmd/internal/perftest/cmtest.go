package perftest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// connectTest connects the QPs of the test, between two barriers.
func (c *cmEnd) connectTest(ctx context.Context) error {
	if err := c.s.x.barrier(); err != nil {
		return err
	}
	run := c.acceptTest
	if c.s.o.Host != "" {
		run = c.dialTest
	}
	if err := run(ctx); err != nil {
		return err
	}
	if i := slices.Index(c.s.dev.Addrs(), c.ids[0].LocalAddr().Addr()); i >= 0 {
		c.s.gidIndex = i
	}
	return c.s.x.barrier()
}

// portSpace is that of the test's connections.
func (c *cmEnd) portSpace() rdmacm.PortSpace {
	if c.s.o.Transport == ib.UD {
		return rdmacm.PortSpaceUDP
	}
	return rdmacm.PortSpaceTCP
}

// testParam is what they are made with.
func (c *cmEnd) testParam() rdmacm.ConnParam {
	reads := 0
	if c.s.o.Test.Verb >= Read {
		reads = c.s.res.outReads
	}
	p := c.param(reads, c.s.res.qpAccess)
	p.MTU = c.s.x.mtu
	p.MinRNRTimer = minRNRTimer
	return p
}

// greets reports whether the client introduces itself on a UD QP to a server that sends, too.
func (c *cmEnd) greets() bool {
	return c.s.o.Transport == ib.UD && (c.s.o.Test.Latency || c.s.o.Bidirectional)
}

// dialTest connects one QP after the other, so that the server's are in the same order.
func (c *cmEnd) dialTest(ctx context.Context) error {
	for i := range c.s.res.endpoints {
		if err := c.dialOne(ctx, &c.s.res.endpoints[i]); err != nil {
			return fmt.Errorf("connect QP %d: %w", i, err)
		}
	}
	return nil
}

func (c *cmEnd) dialOne(ctx context.Context, e *endpoint) error {
	p := c.testParam()
	p.ListenWait = cmListenWait
	id, ev, err := c.connect(ctx, c.portSpace(), p, func(id *rdmacm.ID) error { return c.s.createCMQP(e, id) })
	if err != nil {
		e.qp = nil // gone with its ID
		return err
	}
	c.ids = append(c.ids, id)
	return c.dialed(e, ev)
}

// dialed is the rest for UD.
func (c *cmEnd) dialed(e *endpoint, ev *rdmacm.Event) (err error) {
	if c.s.o.Transport != ib.UD {
		return nil
	}
	if e.ah, err = c.s.res.pd.CreateAH(ev.UD.AV); err != nil {
		return err
	}
	if !c.greets() {
		return nil
	}
	mr := e.mr
	binary.BigEndian.PutUint32(mr.Bytes()[e.send.start:], uint32(e.qp.Num()))
	err = e.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRSendImm, Flags: verbs.SendSignaled, Imm: uint32(e.qp.Num()),
		SGList: []verbs.SGE{mr.SGE(e.send.start, greetingBytes)}, AH: e.ah, RemoteQPN: ev.UD.QPN,
		RemoteQKey: ev.UD.QKey,
	})
	if err != nil {
		return err
	}
	_, err = c.control.wait("send a greeting", c.s.res.cq)
	return err
}

// greetingBytes is the size of the client's introduction: the number of its QP,
// which is in the immediate value, too.
const greetingBytes = 4

// acceptTest waits for the client's connections.
func (c *cmEnd) acceptTest(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, c.tests.Close()) }()
	up := 0
	for up < len(c.s.res.endpoints) {
		e, err := c.next(ctx)
		switch {
		case err != nil:
			return err
		case e.Type == rdmacm.EventEstablished:
			up++
		case e.Type != rdmacm.EventConnectRequest:
			return &cmRefused{e, rdmacm.EventEstablished}
		case len(c.ids) == len(c.s.res.endpoints):
			if err := errors.Join(e.ID.Reject(nil), e.ID.Close()); err != nil {
				return err
			}
		default:
			c.ids = append(c.ids, e.ID)
			if err := c.acceptOne(e.ID, &c.s.res.endpoints[len(c.ids)-1]); err != nil {
				return err
			}
			if c.s.o.Transport == ib.UD {
				up++ // there is no such event
			}
		}
	}
	return nil
}

func (c *cmEnd) acceptOne(id *rdmacm.ID, e *endpoint) error {
	if err := c.s.createCMQP(e, id); err != nil {
		return errors.Join(err, id.Reject(nil))
	}
	if c.greets() {
		sge := e.mr.SGE(e.recv.start, grhBytes+greetingBytes)
		if err := e.qp.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{sge}}); err != nil {
			return err
		}
	}
	p := c.testParam()
	if err := id.Accept(&p); err != nil {
		return err
	}
	if !c.greets() {
		return nil
	}
	if _, err := c.control.wait("wait for the client's greeting", c.s.res.cq); err != nil {
		return err
	}
	var g ib.GRH
	if !g.Decode((*[ib.GRHBytes]byte)(e.mr.Bytes()[e.recv.start:])) {
		return errors.New("the client's greeting came without a GRH")
	}
	var err error
	e.ah, err = c.s.res.pd.CreateAHTo(ib.GIDFromAddr(g.Src))
	return err
}
