package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/roce/rdmacm"
)

// connect is the client.
func (p *ping) connect(ctx context.Context, s *side, from, to netip.AddrPort) (err error) {
	id, err := rdmacm.CreateID(s.ch, rdmacm.PortSpaceTCP)
	if err != nil {
		return err
	}
	defer func() {
		if e := id.Close(); err == nil {
			err = e
		}
	}()
	if err := s.resolve(ctx, id, from, to); err != nil {
		return err
	}
	c, err := newPinger(p, s, id, s.ch)
	if err != nil {
		return err
	}
	defer func() {
		if e := c.free(); err == nil {
			err = e
		}
	}()
	param := p.param()
	want := rdmacm.EventEstablished
	if p.ownQP {
		param.QPN, param.StartingPSN = c.qp.Num(), c.qp.LocalInfo(0).PSN
		want = rdmacm.EventConnectResponse
	}
	if err := id.Connect(&param); err != nil {
		return err
	}
	e, err := expect(ctx, s.ch, want)
	if err != nil {
		return err
	}
	if p.ownQP {
		if err := s.connectQP(id, c.qp, &e.Conn); err != nil {
			return err
		}
		if err := id.Establish(); err != nil {
			return err
		}
	}
	c.debugf("connected")
	if err = c.run(ctx, c.pings); errors.Is(err, errFlushed) {
		return errors.New("the server has hung up")
	}
	return err
}

// pings is the client's half of the exchange.
func (c *pinger) pings(ctx context.Context) error {
	src, sink := c.source.Bytes(), c.data.Bytes()
	for n := 0; c.p.count == 0 || n < c.p.count; n++ {
		fill(src, n)
		if err := c.send(c.source); err != nil {
			return err
		}
		if err := c.await(ctx, &c.got); err != nil { // it has been read
			return err
		}
		if err := c.send(c.data); err != nil {
			return err
		}
		if err := c.await(ctx, &c.got); err != nil { // it has been written
			return err
		}
		if c.p.validate && !bytes.Equal(src, sink) {
			return errors.New("data mismatch")
		}
		if c.p.verbose {
			c.s.printf("ping data: %s\n", text(sink))
		}
	}
	return nil
}

// fill makes the data of ping n: its number, letters, and a zero at the end.
func fill(b []byte, n int) {
	i := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	const letters = pingLast - pingFirst + 1
	for c := n % letters; i < len(b); i++ {
		b[i] = byte(pingFirst + c)
		c = (c + 1) % letters
	}
	b[len(b)-1] = 0
}

// text is b up to its first zero.
func text(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
