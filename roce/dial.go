package roce

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Dialer connects. The zero value is what [Dial] uses.
type Dialer struct {
	ConnConfig

	// LocalAddr is the address and port to connect from. A zero address is chosen by the routing
	// table, port 0 at random.
	LocalAddr netip.AddrPort

	// Tries is the number of requests to send; 0 means 10. RetryInterval is the time to the first
	// retry; 0 means 500 ms, doubling to 4 s: about 30 s in all. A peer may ask for more time
	// (MRA), and gets up to 137 s. The context bounds everything.
	Tries         int
	RetryInterval time.Duration
}

// Dial connects to an RDMA-CM listener at "host:port": one of this package, or any program that
// listens with librdmacm in port space TCP.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d Dialer
	return d.Dial(ctx, addr)
}

// Dial connects to "host:port", where the port may be the name of a TCP service. It tries a host
// name's addresses in turn. The error is an *OpError.
//
// If the context is over already, nothing is sent. If it ends later, the peer may have accepted: it
// is told, and sees a connection that ends at once.
func (d *Dialer) Dial(ctx context.Context, addr string) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		literal, _ := netip.ParseAddrPort(addr)
		return nil, &verbs.OpError{Op: "dial", Remote: literal, Err: err}
	}
	targets, err := resolveHostPort(ctx, addr)
	if err != nil {
		return nil, &verbs.OpError{Op: "dial", Err: err}
	}
	var first error
	for _, t := range targets {
		if !t.Addr().IsValid() {
			t = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), t.Port())
		}
		c, err := d.DialAddr(ctx, t)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// DialAddr is Dial with an address.
func (d *Dialer) DialAddr(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	to = unmap(to)
	if err := ctx.Err(); err != nil {
		return nil, &verbs.OpError{Op: "dial", Remote: to, Err: err}
	}
	if err := d.check("dial"); err != nil {
		return nil, &verbs.OpError{Op: "dial", Remote: to, Err: err}
	}
	param := rdmacm.DefaultConnParam()
	if d.Param != nil {
		param = *d.Param
	}
	if s := access.Shard(d.Device); s != nil {
		s.Turn(nil)
	}
	c, err := d.dial(ctx, to, &param)
	var rej *rdmacm.RejectedError
	if errors.As(err, &rej) {
		// Two kinds of refusal tell how to succeed.
		switch mtu := rej.PathMTU(); {
		case mtu != 0:
			param.MTU = mtu
			c, err = d.dial(ctx, to, &param)
		case rej.Reason == mad.RejectStaleConnection:
			c, err = d.dial(ctx, to, &param) // with new numbers
		}
	}
	if err != nil {
		return nil, &verbs.OpError{Op: "dial", Remote: to, Err: err}
	}
	return c, nil
}

// device returns the device to connect from.
func (d *Dialer) device(to netip.Addr) (*verbs.Device, error) {
	if d.Device != nil {
		return d.Device, nil
	}
	if d.PD != nil {
		return d.PD.Device(), nil
	}
	return DefaultDeviceFor(d.LocalAddr.Addr(), to)
}

// dial makes one attempt.
func (d *Dialer) dial(ctx context.Context, to netip.AddrPort, param *rdmacm.ConnParam) (c *Conn, err error) {
	dev, err := d.device(to.Addr())
	if err != nil {
		return nil, err
	}
	tmp, err := rdmacm.CreateEventChannel(dev)
	if err != nil {
		return nil, err
	}
	id, err := rdmacm.CreateID(tmp, rdmacm.PortSpaceTCP)
	if err != nil {
		return nil, err
	}
	defer func() {
		if c == nil {
			_ = id.Close() // fails only if the device is closed, which does not matter here
		}
	}()
	if err := id.ResolveAddr(d.LocalAddr, to); err != nil {
		return nil, err
	}
	if err := id.ResolveRoute(); err != nil {
		return nil, err
	}
	if err := id.SetRetries(d.Tries, d.RetryInterval); err != nil {
		return nil, err
	}
	conn, err := newConn(ctx, id, &d.ConnConfig)
	if err != nil {
		return nil, err
	}
	e, err := connectID(ctx, id, conn.introducing(param, rdmacm.MaxConnectPrivate), conn.ch)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.ready(e.PrivateData)
	conn.startKeepAlive()
	conn.logOpen("established")
	return conn, nil
}

// connectID connects and waits for the outcome, on a channel that becomes the ID's.
func connectID(ctx context.Context, id *rdmacm.ID, param *rdmacm.ConnParam,
	ch *rdmacm.EventChannel) (*rdmacm.Event, error) {
	if err := id.Migrate(ch); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the peer is not told
	}
	if err := id.Connect(param); err != nil {
		return nil, err
	}
	for {
		e, err := ch.Get(ctx)
		switch {
		case err != nil:
			return nil, err
		case e.Type == rdmacm.EventEstablished:
			return e, nil
		case e.Err != nil:
			return nil, e.Err
		case e.Type == rdmacm.EventDisconnected:
			return nil, verbs.ErrPeerClosed
		}
	}
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
