package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// ListenLimits bounds what peers can make a listening [ID] hold.
type ListenLimits struct {
	// Backlog is how many requests may wait for the application. 0, and anything larger, is the
	// most, 1024, as in listen(2). Further ones stay unanswered, which Counters counts, and their
	// senders try again.
	Backlog int
	// MaxConns is how many IDs of connections the application may have from this listener, until it
	// closes them; 0 is any number. Requests beyond the limit wait in the backlog. If a peer does
	// not confirm its connection within half a second, the connection is given up with
	// EventUnreachable when another request waits.
	MaxConns int
	// MaxUntaken is how many of these connections may lack [ID.Taken], for an application that
	// prepares connections and hands them on; 0 is any number. Requests beyond the limit wait in
	// the backlog. Unconfirmed connections stop counting after 50 ms, so dead peers cannot fill the
	// limit.
	MaxUntaken int
}

// Listen makes the ID accept connection requests (rdma_listen). Each comes as an
// EventConnectRequest with an ID of its own. See [ListenLimits] for the backlog. If a process at
// the address was killed, Listen first waits until its peers know, for 20 ms at most.
func (id *ID) Listen(l ListenLimits) error {
	for _, f := range []struct {
		name string
		n    int
	}{{"Backlog", l.Backlog}, {"MaxConns", l.MaxConns}, {"MaxUntaken", l.MaxUntaken}} {
		if f.n < 0 {
			return argError("listen", f.name, fmt.Sprintf("%d, and the least is 0", f.n))
		}
	}
	var told chan struct{}
	var left time.Duration
	err := id.do(func(now int64, a *agent) error {
		if err := id.requireState("listen", idBound, idIdle); err != nil {
			return err
		}
		told, left = a.told, a.toldLeft(now)
		if !id.bound {
			if err := id.bindLocked(a, netip.AddrPort{}); err != nil {
				return err
			}
		}
		if id.reuse && !a.alone(id) {
			return &verbs.AddrError{Op: "listen", Addr: id.local, Err: verbs.ErrAddrInUse}
		}
		service := mad.NewServiceID(id.ps, id.local.Port())
		// Other processes may have the address as well, and must pass requests on to here.
		if err := a.s.Slotted().Announce(service, id.local.Addr()); err != nil {
			if errors.Is(err, link.ErrServiceInUse) {
				err = access.Mark(err, verbs.ErrAddrInUse)
			}
			return &verbs.AddrError{Op: "listen", Addr: id.local, Err: err}
		}
		cl, err := a.core.Listen(service, id.local.Addr(), l.Backlog)
		if err != nil {
			a.s.Slotted().Withdraw(service, id.local.Addr())
			return &verbs.AddrError{Op: "listen", Addr: id.local, Err: own(id.d, err)}
		}
		cl.SetMaxConns(l.MaxConns)
		cl.SetMaxUntaken(l.MaxUntaken)
		cl.UserData = id
		id.listener = cl
		return nil
	})
	if err == nil && told != nil && left > 0 {
		awaitTold(told, left)
	}
	return err
}

// toldTime is how long Listen waits until the peers of a killed process know of its end. Tests are
// more patient.
var toldTime = 20 * time.Millisecond

// toldLeft returns the rest of toldTime. A peer that is gone does not answer, and later listeners
// do not wait for it again.
func (a *agent) toldLeft(now int64) time.Duration { return toldTime - time.Duration(now-a.toldAt) }

// awaitTold waits for these peers: a peer that has kept a connection to the earlier process must
// find it over once it can learn that this one listens.
func awaitTold(told <-chan struct{}, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-told:
	case <-t.C: // some peers are gone as well
	}
}

// unlisten ends the listener. The lock is held.
func (id *ID) unlisten() {
	if id.listener != nil {
		id.listener.Close()
		id.s.Slotted().Withdraw(mad.NewServiceID(id.ps, id.local.Port()), id.local.Addr())
	}
}

// Taken says that the application has the connection: it no longer counts in
// ListenLimits.MaxUntaken.
func (id *ID) Taken() {
	_ = id.do(func(int64, *agent) error { // nothing to do if it is closed
		if id.conn != nil {
			id.conn.Taken()
		}
		return nil
	})
}

// offerRequests tells the channel of a listener that there are requests. The lock is held.
func (id *ID) offerRequests(now int64) {
	if id.listener != nil && id.listener.Takeable() && !id.ch.offer(id) {
		id.refuseRequests(now)
	}
}

// refuseRequests refuses the requests of a listener whose channel is closed. The lock is held.
func (id *ID) refuseRequests(now int64) {
	id.a.ready = true
	for e, ok := id.listener.Next(); ok; e, ok = id.listener.Next() {
		e.Conn.Destroy(now)
	}
}

// takeRequest makes an ID for the oldest request of a listener; nil if there is none any more, or
// the listener has another channel.
func (id *ID) takeRequest(c *EventChannel) *Event {
	if id.s.Lock() != nil {
		return nil
	}
	defer id.s.Unlock()
	if id.closed || id.ch != c {
		return nil
	}
	e, ok := id.listener.Next()
	if !ok {
		return nil
	}
	if id.listener.Takeable() {
		c.offer(id)
	}
	return id.incoming(&e)
}

// incoming makes an ID for a request. The lock is held.
func (id *ID) incoming(e *cm.Event) *Event {
	n := id.a.newID(id.ch, id.ps)
	n.Context = id.Context
	n.conn, n.req = e.Conn, e
	e.Conn.UserData = n
	n.sgid = id.s.AddrIndex(e.Conn.Local())
	n.local = netip.AddrPortFrom(e.Conn.Local(), id.local.Port())
	n.remote = netip.AddrPortFrom(e.Conn.Remote(), e.CMA.SrcPort)
	ev := &Event{Type: EventConnectRequest, ID: n, ListenID: id, PrivateData: e.Private}
	if e.REQ != nil {
		ev.Conn = paramOfREQ(e.REQ, e.ECE, e.Private)
	}
	return ev
}
