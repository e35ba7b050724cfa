package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
)

// Dialer makes connections from a device.
type Dialer struct {
	Device *roce.Device
	Config Config
	// LocalAddr is where to speak from; the zero value, an unspecified address
	// and port 0 leave it to the device.
	LocalAddr netip.AddrPort
}

// Dial connects to a listening rsocket with the defaults.
func Dial(ctx context.Context, d *roce.Device, addr netip.AddrPort) (*Conn, error) {
	return (&Dialer{Device: d}).Dial(ctx, addr)
}

// Dial connects to a listening rsocket. ctx ends the attempt, not the
// connection. Nobody listening, or no rsocket, is an error that matches syscall.ECONNREFUSED; no
// answer one that matches syscall.ETIMEDOUT; a peer that hangs up as soon as it has
// accepted one that matches syscall.ECONNRESET. All are *net.OpError.
func (d *Dialer) Dial(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	a, err := d.begin(ctx, addr)
	if err == nil {
		if err = a.finish(ctx); err == nil {
			return a, nil
		}
	}
	return nil, opError("dial", Addr{d.LocalAddr}, Addr{addr}, dialError(err))
}

// DialContext is Dial for a name and a port, in the form that http.Transport and others want.
// network is "tcp", "tcp4", "tcp6" or "rsocket".
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: Network, Err: err}
	}
	var first error
	for _, a := range addrs {
		if _, err := d.Device.GIDIndexFor(ib.GIDFromAddr(a.Addr())); err != nil {
			first = errors.Join(first, opError("dial", Addr{d.LocalAddr}, Addr{a}, dialError(err)))
			continue // a family that the device does not speak
		}
		c, err := d.Dial(ctx, a)
		if err == nil {
			return c, nil
		}
		if first == nil || ctx.Err() != nil {
			first = err
		}
	}
	return nil, first
}

func resolve(ctx context.Context, network, address string) ([]netip.AddrPort, error) {
	families := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6", Network: "ip"}
	family, ok := families[network]
	if !ok {
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		p, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
		if err != nil {
			return nil, err
		}
		port = uint64(p)
	}
	if host == "" {
		host = "127.0.0.1"
		if family == "ip6" {
			host = "::1"
		}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if err != nil {
		return nil, err
	}
	out := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		out[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return out, nil
}

// simTries is how often a request is sent on a simulated network: there time
// passes while the peer's goroutine has had none to answer, and the context
// says when to give up.
const simTries = 1 << 20

// begin makes a connection whose request is on its way.
func (d *Dialer) begin(ctx context.Context, addr netip.AddrPort) (c *Conn, err error) {
	if d.Device == nil {
		return nil, &roce.ArgError{Op: "dial", Arg: "Device", Why: "nil"}
	}
	ch, err := d.Device.CreateEventChannel()
	if err != nil {
		return nil, err
	}
	id, err := d.Device.CreateID(ch, roce.PortSpaceTCP)
	if err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, id.Close(), ch.Close())
		}
	}()
	if d.Device.Capabilities().Virtual {
		if err = id.SetRetries(simTries, 0); err != nil {
			return nil, err
		}
	}
	if d.Config.TrafficClass != 0 {
		if err = id.SetTypeOfService(d.Config.TrafficClass); err != nil {
			return nil, err
		}
	}
	if err = id.ResolveAddr(d.LocalAddr, addr); err != nil {
		return nil, err
	}
	if _, err = expect(ctx, ch, roce.CMAddrResolved); err != nil {
		return nil, err
	}
	if err = id.ResolveRoute(); err != nil {
		return nil, err
	}
	if _, err = expect(ctx, ch, roce.CMRouteResolved); err != nil {
		return nil, err
	}
	if c, err = newConn(d.Device, id, ch, d.Config.normal()); err != nil {
		return nil, err
	}
	if err = id.Connect(connParam(c.local())); err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

// finish waits for the answer.
func (c *Conn) finish(ctx context.Context) error {
	e, err := expect(ctx, c.ch, roce.CMEstablished)
	var peer connData
	if err == nil {
		peer, err = parseConnData(e.PrivateData)
	}
	if err != nil {
		return errors.Join(err, c.release())
	}
	c.meet(peer)
	c.start()
	return nil
}

// expect waits for the next event, which should be of type want.
func expect(ctx context.Context, ch *roce.EventChannel, want roce.CMEventType) (*roce.CMEvent, error) {
	e, err := ch.Get(ctx)
	switch {
	case err != nil:
		return nil, err
	case e.Type == want:
		return e, nil
	case e.Err != nil:
		return nil, e.Err
	case e.Type == roce.CMDisconnected: // it had accepted, and thought better of it
		return nil, &brokenError{syscall.ECONNRESET, roce.ErrPeerClosed}
	}
	return nil, errors.New("rsocket: connect: " + e.Type.String())
}
