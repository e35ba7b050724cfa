package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// side is the local end of a tool: a device, a channel for the events of its
// IDs, and a protection domain.
type side struct {
	name    string // of the tool
	env     *tool.Env
	dev     *verbs.Device
	ch      *rdmacm.EventChannel
	pd      *verbs.PD
	release func() error
}

// lookup resolves a host name to its first address; an empty name is the zero
// Addr.
func lookup(ctx context.Context, name string) (netip.Addr, error) {
	if name == "" {
		return netip.Addr{}, nil
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0].Unmap(), nil
}

// open opens the device: where the options say; else on the local address that
// the tool is bound to; else where the kernel would reach the peer from.
func open(name string, env *tool.Env, d *tool.DeviceOptions, local, peer netip.Addr) (_ *side, err error) {
	o := *d
	if o.Addr == "" && o.Dev == "" && local.IsValid() && !local.IsUnspecified() {
		o.Addr = local.String()
	}
	host, ipv6 := "", local.Is6()
	if peer.IsValid() && !peer.IsUnspecified() {
		host, ipv6 = peer.String(), peer.Is6()
	}
	place, err := o.Choose(host, ipv6)
	if err != nil {
		return nil, err
	}
	s := &side{name: name, env: env}
	if s.dev, s.release, _, err = o.Open(env, place); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.ch, err = rdmacm.CreateEventChannel(s.dev); err != nil {
		return nil, err
	}
	s.pd, err = s.dev.AllocPD()
	return s, err
}

func (s *side) close() error {
	var errs []error
	if s.ch != nil {
		errs = append(errs, s.ch.Close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	return errors.Join(append(errs, s.release())...)
}

func (s *side) printf(format string, args ...any) { fmt.Fprintf(s.env.Stdout, format, args...) }

// remark prints what the originals print on standard error, and what only this program says.
func (s *side) remark(format string, args ...any) {
	fmt.Fprintf(s.env.Stderr, s.name+": "+format+"\n", args...)
}

// listen makes a listener, and says so.
func (s *side) listen(ps rdmacm.PortSpace, local netip.AddrPort, backlog int) (*rdmacm.ID, error) {
	id, err := rdmacm.CreateID(s.ch, ps)
	if err != nil {
		return nil, err
	}
	if err = id.BindAddr(local); err == nil {
		err = id.Listen(rdmacm.ListenLimits{Backlog: backlog})
	}
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	at := id.LocalAddr()
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(s.dev.Addrs()[0], at.Port())
	}
	s.remark("listening on %v", at)
	if s.env.Listening != nil {
		s.env.Listening(at)
	}
	return id, nil
}

// next waits for an event. If the user ends the wait, the error says so.
func next(ctx context.Context, ch *rdmacm.EventChannel) (*rdmacm.Event, error) {
	e, err := ch.Get(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

// expect waits for an event of one type; another one is an error.
func expect(ctx context.Context, ch *rdmacm.EventChannel, want rdmacm.EventType) (*rdmacm.Event, error) {
	for {
		e, err := next(ctx, ch)
		switch {
		case err != nil:
			return nil, err
		case e.Type == want:
			return e, nil
		case e.Type == rdmacm.EventTimewaitExit:
		default:
			return nil, &eventError{e, want}
		}
	}
}

// eventError says that something else happened than what was waited for.
type eventError struct {
	e    *rdmacm.Event
	want rdmacm.EventType
}

func (e *eventError) Error() string {
	s := fmt.Sprintf("event: %v, error: %d", e.e.Type, status(e.e))
	switch {
	case errors.Is(e.e.Err, roce.ErrConnRefused):
		s += " (nobody listens on that port)"
	case errors.Is(e.e.Err, roce.ErrUnreachable):
		s += " (no answer: is the peer up, can UDP port 4791 reach it?)"
	case e.e.Err != nil:
		s += " (" + strings.TrimPrefix(e.e.Err.Error(), "roce: ") + ")"
	default:
		s += fmt.Sprintf(" instead of %v", e.want)
	}
	return s
}

func (e *eventError) Unwrap() error { return e.e.Err }

// etimedout is the number that the originals print when a peer does not answer.
const etimedout = 110

// status is what librdmacm puts in the field status of an event: the reason of
// a refusal, or a negative error number.
func status(e *rdmacm.Event) int {
	var rej *roce.RejectedError
	switch {
	case errors.As(e.Err, &rej) && e.ID != nil && e.ID.PortSpace() == rdmacm.PortSpaceUDP:
		return int(rej.SIDRStatus)
	case rej != nil:
		return int(rej.Reason)
	case errors.Is(e.Err, roce.ErrUnreachable):
		return -etimedout
	}
	return 0
}

// resolve finds the way to a peer, for an ID that has been made.
func (s *side) resolve(ctx context.Context, id *rdmacm.ID, src, dst netip.AddrPort) error {
	if err := id.ResolveAddr(src, dst); err != nil {
		return err
	}
	if _, err := expect(ctx, s.ch, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(); err != nil {
		return err
	}
	_, err := expect(ctx, s.ch, rdmacm.EventRouteResolved)
	return err
}

// hangUp ends a connection and waits until the peer knows, which is a matter of
// its patience and lingerTime.
func (s *side) hangUp(ctx context.Context, id *rdmacm.ID, ch *rdmacm.EventChannel) error {
	if err := id.Disconnect(nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lingerTime, errLinger)
	defer cancel()
	for {
		e, err := next(ctx, ch)
		switch {
		case errors.Is(err, errLinger):
			s.remark("the peer does not confirm the end of the connection")
			return nil
		case err != nil:
			return err
		case e.ID == id && e.Type == rdmacm.EventDisconnected:
			return nil
		}
	}
}

var errLinger = errors.New("no answer")

// wait returns one completion at least.
func wait(ctx context.Context, cq *verbs.CQ, wcs []verbs.WC) (int, error) {
	n, err := cq.Poll(wcs)
	for i := 0; n == 0 && err == nil && i < tool.Spins; i++ {
		runtime.Gosched()
		n, err = cq.Poll(wcs)
	}
	if n == 0 && err == nil {
		n, err = cq.Wait(ctx, wcs)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}

// failed turns a completion with an error into one.
func failed(wc *verbs.WC) error {
	return fmt.Errorf("cq completion failed status %d (%v), wr_id %d: %w", wc.Status, wc.Status, wc.ID,
		verbs.WCError(wc))
}

// on makes an address and a port one.
func on(a netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(port)) }
