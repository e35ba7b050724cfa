package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Dialer makes connections. The zero value has the defaults.
type Dialer struct {
	// Device is where connections are made; nil is the process's device for the local address that
	// leads to the peer, see [roce.DefaultDevice].
	Device *verbs.Device
	Config Config
	// LocalAddr is the address to connect from; the zero value, an unspecified address and port 0
	// let the device choose.
	LocalAddr netip.AddrPort

	mtu ib.MTU // path MTU; 0 is the port's largest
}

// DialAddr connects to a listening rsocket. ctx ends the attempt, not the connection; if it is over
// already, nothing is sent. All errors are *net.OpError. They match syscall.ECONNREFUSED if nothing
// listens at the address, or no rsocket; syscall.ETIMEDOUT if there is no answer;
// syscall.ENETUNREACH if there is no route to the address, EHOSTUNREACH if a router or the network
// says that the host cannot be reached; and syscall.ECONNRESET if the peer hangs up as soon as it
// has accepted.
func (d *Dialer) DialAddr(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	if d == nil {
		d = &Dialer{}
	}
	on, err := d.ready(ctx, addr.Addr())
	if err == nil {
		var c *Conn
		c, err = on.attempt(ctx, addr)
		var rejected *roce.RejectedError
		if errors.As(err, &rejected) {
			// Two kinds of refusal tell which other request can succeed.
			if mtu := rejected.PathMTU(); mtu != 0 || rejected.Reason == mad.RejectStaleConnection {
				on.mtu = mtu
				c, err = on.attempt(ctx, addr)
			}
		}
		if err == nil {
			return c, nil
		}
	}
	return nil, opError("dial", Addr{d.LocalAddr}, Addr{addr}, dialError(err))
}

// attempt sends one request and waits for the answer.
func (d *Dialer) attempt(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	c, err := d.begin(ctx, addr)
	if err == nil {
		err = c.finish(ctx)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ready returns d with a device from which to reach an address.
func (d *Dialer) ready(ctx context.Context, to netip.Addr) (*Dialer, error) {
	if ctx == nil {
		return nil, argError("dial", "ctx", "nil")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !to.IsValid() {
		return nil, argError("dial", "addr", "invalid")
	}
	if err := d.Config.check("dial"); err != nil {
		return nil, err
	}
	on := *d
	if on.Device == nil {
		var err error
		if on.Device, err = roce.DefaultDeviceFor(d.LocalAddr.Addr(), to); err != nil {
			return nil, err
		}
	}
	return &on, nil
}

// DialContext is DialAddr for a name and a port, in the form that http.Transport and others expect.
// network is "tcp", "tcp4", "tcp6" or "rsocket".
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var addrs []netip.AddrPort
	err := error(argError("dial", "ctx", "nil"))
	if ctx != nil {
		if err = ctx.Err(); err == nil {
			addrs, err = resolve(ctx, network, address)
		}
	}
	if err != nil {
		literal, _ := netip.ParseAddrPort(address)
		return nil, opError("dial", Addr{}, Addr{literal}, contextError(err))
	}
	var first error
	for _, a := range addrs {
		c, err := d.DialAddr(ctx, a)
		if err == nil {
			return c, nil
		}
		// That the device lacks a family says less than the error of another address.
		if first == nil || errors.Is(first, syscall.ENETUNREACH) {
			first = err
		}
		if ctx.Err() != nil {
			return nil, err
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
	if ip, err := netip.ParseAddr(host); err == nil { // the resolver would lose the zone
		ip = ip.Unmap()
		if family == "ip4" && !ip.Is4() || family == "ip6" && !ip.Is6() {
			return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
		}
		return []netip.AddrPort{netip.AddrPortFrom(ip, uint16(port))}, nil
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

// simTries is how often a request is sent on a simulated network that its waiting callers drive:
// there time passes before the peer's goroutine gets to answer, and the context limits the attempt.
const simTries = 1 << 20

// begin makes a connection whose request is on its way.
func (d *Dialer) begin(ctx context.Context, addr netip.AddrPort) (c *Conn, err error) {
	access.Shard(d.Device).Turn(nil)
	ch, err := rdmacm.CreateEventChannel(d.Device)
	if err != nil {
		return nil, err
	}
	id, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
	if err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, id.Close(), ch.Close())
		}
	}()
	if caps := d.Device.Capabilities(); caps.Virtual && !caps.Scheduled {
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
	if _, err = expect(ctx, ch, rdmacm.EventAddrResolved); err != nil {
		return nil, err
	}
	if err = id.ResolveRoute(); err != nil {
		return nil, err
	}
	if _, err = expect(ctx, ch, rdmacm.EventRouteResolved); err != nil {
		return nil, err
	}
	if c, err = newConn(d.Device, id, ch, d.Config.normal()); err != nil {
		return nil, err
	}
	if err = ctx.Err(); err == nil { // from here on the peer is involved
		param := connParam(c.local())
		param.MTU = d.mtu
		err = id.Connect(param)
	}
	if err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

// finish waits for the answer.
func (c *Conn) finish(ctx context.Context) error {
	e, err := expect(ctx, c.ch, rdmacm.EventEstablished)
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
func expect(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) (*rdmacm.Event, error) {
	e, err := ch.Get(ctx)
	switch {
	case err != nil:
		return nil, err
	case e.Type == want:
		return e, nil
	case e.Err != nil:
		return nil, e.Err
	case e.Type == rdmacm.EventDisconnected: // it accepted, and then changed its mind
		return nil, &brokenError{syscall.ECONNRESET, roce.ErrPeerClosed}
	}
	return nil, errors.New("rsocket: connect: " + e.Type.String())
}
