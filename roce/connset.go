package roce

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// connSet is a set of connections that callers can wait for: those of a server, a listener or a
// device.
type connSet struct {
	mu      sync.Mutex
	m       map[*Conn]struct{}
	waiting []*shard.Signal // of the callers that wait until the set is empty
}

func (s *connSet) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[*Conn]struct{}{}
	}
	s.m[c] = struct{}{}
}

// remove reports whether the connection was there.
func (s *connSet) remove(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.m[c]
	delete(s.m, c)
	if len(s.m) == 0 {
		for _, w := range s.waiting {
			w.Set()
		}
	}
	return was
}

// all returns the connections, in an order that a simulation repeats.
func (s *connSet) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Conn, 0, len(s.m))
	for c := range s.m {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *Conn) int { return cmp.Compare(a.qp.Num(), b.qp.Num()) })
	return out
}

// empty waits until the set is empty, driving the time of d meanwhile; d is nil if the connections
// are of several devices.
func (s *connSet) empty(ctx context.Context, d *verbs.Device) error {
	own := shard.NewSignal()
	s.mu.Lock()
	s.waiting = append(s.waiting, own)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.waiting, own)
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}()
	for tries := 0; ; tries++ {
		s.mu.Lock()
		n := len(s.m)
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		if d != nil {
			if err := access.Wait(d, ctx, own.C(), tries); err != nil {
				return err
			}
			continue
		}
		select {
		case <-own.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deviceUse is what this package keeps for a device.
type deviceUse struct {
	conns connSet

	mu        sync.Mutex
	listeners map[*Listener]struct{}
	ending    bool // Shutdown has begun
}

// uses has the deviceUse of each device.
var uses access.PerDevice[deviceUse]

func useOf(d *verbs.Device) *deviceUse {
	return access.KeptOn(d, &uses, func() *deviceUse { return &deviceUse{listeners: map[*Listener]struct{}{}} })
}

// admits returns an error if the device is shutting down.
func (u *deviceUse) admits() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ending {
		return verbs.ErrClosed
	}
	return nil
}

// listen enters a listener, unless the device is shutting down.
func (u *deviceUse) listen(l *Listener) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ending {
		return verbs.ErrClosed
	}
	u.listeners[l] = struct{}{}
	return nil
}

func (u *deviceUse) unlisten(l *Listener) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.listeners, l)
}

// Shutdown ends a device when its work is done. Listeners of this package take no more connections,
// and handlers of [Server] and [Listener.Serve] end as with [Server.Shutdown]. Once all connections
// of this package are closed, Shutdown closes the device. Calls that would begin something new fail
// with an error that matches net.ErrClosed.
//
// If ctx ends first, Shutdown returns its error, and the device goes on with the remaining
// connections: close it, or call Shutdown again. Shutdown does not wait for other objects on the
// device (queue pairs, rsockets): close rsockets first.
func Shutdown(ctx context.Context, d *verbs.Device) error {
	s := access.Shard(d)
	if s == nil || s.Closed() {
		return nil
	}
	u := useOf(d)
	u.mu.Lock()
	u.ending = true
	listeners := make([]*Listener, 0, len(u.listeners))
	for l := range u.listeners {
		listeners = append(listeners, l)
	}
	u.mu.Unlock()
	slices.SortFunc(listeners, func(a, b *Listener) int { return a.addr.Compare(b.addr) })
	for _, l := range listeners {
		if l.up != nil {
			l = l.up // the whole listener: it must not go on with one address unserved and no one told
		}
		l.drain()
	}
	if err := u.conns.empty(ctx, d); err != nil {
		return &verbs.OpError{Op: "shut down", Err: err}
	}
	return d.Close()
}

// Conns returns the open connections of this package on a device, for statistics: [Conn.Stats].
func Conns(d *verbs.Device) []*Conn {
	if access.Shard(d) == nil {
		return nil
	}
	return useOf(d).conns.all()
}
