package roce

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/cm"
)

// PortSpace is the name space of the ports of a [CMID] (rdma_port_space).
type PortSpace = mad.PortSpace

// The port spaces.
const (
	PortSpaceTCP = mad.PortSpaceTCP // reliable connections
	PortSpaceUDP = mad.PortSpaceUDP // datagrams
	PortSpaceIB  = mad.PortSpaceIB  // reliable connections, ports apart from those of TCP
)

// CMID is an identifier of the communication manager, as librdmacm has it
// (rdma_cm_id): a listener, one end of a connection, or one end of a datagram
// association. [Dial] and [Listen] are easier; this is for programs written
// the way those on librdmacm are.
//
// The way of an active ID is ResolveAddr, ResolveRoute, CreateQP, Connect; of
// a passive one BindAddr, Listen, and for each ID that comes with an event CMConnectRequest CreateQP and Accept, or
// Reject. What becomes of each step is told by an event on the channel of the ID.
//
// An ID moves its queue pair by itself: to INIT when it gets it, so that
// receives can be posted before the connection is accepted; to RTR and RTS
// when the peer has accepted, or before Accept tells the peer; to ERR when the
// connection ends.
type CMID struct {
	d  *Device
	ps PortSpace

	// Context is the application's.
	Context any

	// All below is guarded by d.mu.
	ch       *EventChannel
	state    idState
	local    netip.AddrPort
	bound    bool // local holds a port
	remote   netip.AddrPort
	sgid     int // index of local
	tos      uint8
	tries    int
	retryNs  int64
	memory   int // bytes, see SetMemory
	qp       *QP
	ownQP    bool // made by CreateQP
	conn     *cm.Conn
	listener *cm.Listener
	req      *cm.Event // passive: the request
	param    ConnParam // active: what Connect said
	groups   []ib.GID  // multicast groups joined
	closed   bool

	// Guarded by the lock of ch.
	firstEvent, lastEvent *CMEvent
	offered               bool // a listener: in the list of ch
}

// idState is how far an ID has come.
type idState uint8

const (
	idIdle idState = iota
	idBound
	idAddrResolved
	idRouteResolved
	idListening
	idRequested  // passive: the application has the request
	idConnecting // active: REQ sent; passive: REP sent
	idResponded  // active, without queue pair: the application has the reply
	idConnected
	idOver
)

var idStateNames = [...]string{
	"idle", "bound", "address resolved", "route resolved", "listening", "connection requested", "connecting",
	"connection accepted", "connected", "disconnected",
}

func (s idState) String() string { return idStateNames[s] }

// CreateID makes an ID whose events go to ch (rdma_create_id).
func (d *Device) CreateID(ch *EventChannel, ps PortSpace) (*CMID, error) {
	switch {
	case ch == nil || ch.d != d:
		return nil, &ArgError{"create ID", "channel", "missing or of another device"}
	case ps != PortSpaceTCP && ps != PortSpaceUDP && ps != PortSpaceIB:
		return nil, &ArgError{"create ID", "port space", ps.String() + " is not supported"}
	}
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if err := d.startCM(); err != nil {
		return nil, own(err)
	}
	return d.newID(ch, ps), nil
}

func (d *Device) newID(ch *EventChannel, ps PortSpace) *CMID {
	return &CMID{d: d, ch: ch, ps: ps}
}

// do runs f with the lock held if the ID is not closed.
func (id *CMID) do(f func(now int64, a *cmAgent) error) error {
	return id.d.do(func(now int64) error {
		if id.closed {
			return ErrClosed
		}
		id.d.cm.ready = true
		return f(now, id.d.cm)
	})
}

// need returns an error unless the ID is in one of the states.
func (id *CMID) need(op string, states ...idState) error {
	for _, s := range states {
		if id.state == s {
			return nil
		}
	}
	return &IDStateError{op, id.state.String()}
}

// IDStateError says that a call does not fit what the ID is doing. It matches
// [ErrInvalidState].
type IDStateError struct {
	Op    string
	State string
}

func (e *IDStateError) Error() string { return "roce: " + e.Op + ": the ID is " + e.State }

// Is makes every IDStateError match ErrInvalidState.
func (e *IDStateError) Is(target error) bool { return target == ErrInvalidState }

// event tells the application.
func (id *CMID) event(e CMEvent) {
	e.ID = id
	id.ch.push(&e)
}

// Device returns the device of the ID.
func (id *CMID) Device() *Device { return id.d }

// PortSpace returns the port space.
func (id *CMID) PortSpace() PortSpace { return id.ps }

// QP returns the queue pair, nil if there is none.
func (id *CMID) QP() *QP {
	if id.d == nil {
		return nil
	}
	id.d.mu.Lock()
	defer id.d.mu.Unlock()
	return id.qp
}

// LocalAddr returns the local address and port.
func (id *CMID) LocalAddr() netip.AddrPort {
	if id.d == nil {
		return netip.AddrPort{}
	}
	id.d.mu.Lock()
	defer id.d.mu.Unlock()
	return id.local
}

// RemoteAddr returns the address and port of the peer.
func (id *CMID) RemoteAddr() netip.AddrPort {
	if id.d == nil {
		return netip.AddrPort{}
	}
	id.d.mu.Lock()
	defer id.d.mu.Unlock()
	return id.remote
}

// SetTypeOfService sets the traffic class of the connection to be made
// (RDMA_OPTION_ID_TOS). A passive ID takes that of the peer unless it is set before Accept.
func (id *CMID) SetTypeOfService(tos uint8) error {
	return id.do(func(int64, *cmAgent) error { id.tos = tos; return nil })
}

// SetRetries sets how often Connect sends its request, and how many nanoseconds
// it waits between two tries: up to 1<<20 times and an hour. 0 means the default: 10 times,
// after 500 ms at first and twice as long from try to try up to 4 s, half a
// minute in all. A peer that says that it is there and needs time (MRA) gets it.
func (id *CMID) SetRetries(tries int, intervalNs int64) error {
	switch {
	case tries < 0 || tries > maxCMTries:
		return &ArgError{"set retries", "tries", fmt.Sprintf("%d, not 0 to %d", tries, maxCMTries)}
	case intervalNs < 0 || intervalNs > maxCMIntervalNs:
		return &ArgError{"set retries", "interval", fmt.Sprintf("%d ns, not 0 to %d (an hour)", intervalNs, int64(maxCMIntervalNs))}
	}
	return id.do(func(int64, *cmAgent) error { id.tries, id.retryNs = tries, intervalNs; return nil })
}

// SetMemory tells how many bytes the application holds for a connection that it
// is about to accept. They bound how many connections can be half-open at a
// time, which is until the peer confirms: beyond 64 MiB on a device requests wait in the backlog of
// their listener, and half-open connections whose peers have ignored them for 750 ms (in a flood less)
// are given up for those, with CMUnreachable. [Listener] does it by itself.
func (id *CMID) SetMemory(bytes int) error {
	if bytes < 0 {
		return &ArgError{"set memory", "bytes", fmt.Sprintf("%d, and the least is 0", bytes)}
	}
	return id.do(func(int64, *cmAgent) error { id.memory = bytes; return nil })
}

// Migrate moves the ID, and its events that have not been taken, to another
// channel (rdma_migrate_id). An accepted connection usually gets one of its
// own.
func (id *CMID) Migrate(ch *EventChannel) error {
	if ch == nil || ch.d != id.d {
		return &ArgError{"migrate ID", "channel", "missing or of another device"}
	}
	return id.do(func(now int64, _ *cmAgent) error {
		old := id.ch
		if old == ch {
			return nil
		}
		var moved []*CMEvent
		old.mu.Lock()
		for e := old.events.take(id); e != nil; e = old.events.take(id) {
			moved = append(moved, e)
		}
		old.unlist(id)
		old.mu.Unlock()
		id.ch = ch
		for _, e := range moved {
			ch.push(e)
		}
		id.offerRequests(now)
		return nil
	})
}

// CreateQP makes a queue pair for the ID (rdma_create_qp): RC for port space
// TCP, UD, ready to use, for UDP. a.Type may be UC for port space TCP. It is
// destroyed with the ID.
func (id *CMID) CreateQP(pd *PD, a QPInitAttr) (*QP, error) {
	if pd == nil || pd.d != id.d {
		return nil, &ArgError{"create QP", "PD", "missing or of another device"}
	}
	switch {
	case id.ps == PortSpaceUDP:
		a.Type = UD
	case a.Type == 0:
		a.Type = RC
	}
	qp, err := pd.CreateQP(a)
	if err != nil {
		return nil, err
	}
	if err := id.AttachQP(qp); err != nil {
		_ = qp.Close()
		return nil, err
	}
	id.d.mu.Lock()
	id.ownQP = true
	id.d.mu.Unlock()
	return qp, nil
}

// AttachQP makes the ID use a queue pair in RESET that the application made
// and goes on to own.
func (id *CMID) AttachQP(qp *QP) error {
	if qp == nil || qp.d != id.d {
		return &ArgError{"attach QP", "QP", "missing or of another device"}
	}
	if (id.ps == PortSpaceUDP) != (qp.typ == UD) {
		return &ArgError{"attach QP", "QP", qp.typ.String() + " does not fit port space " + id.ps.String()}
	}
	if err := id.do(func(int64, *cmAgent) error {
		if id.qp != nil || qp.id != nil {
			return &ArgError{"attach QP", "QP", "the ID has one, or the queue pair belongs to another ID"}
		}
		id.qp, qp.id = qp, id
		return nil
	}); err != nil {
		return err
	}
	var err error
	if qp.typ == UD {
		err = qp.Activate(UDQKey)
	} else {
		err = qp.ToInit(0)
	}
	if err != nil {
		id.d.mu.Lock()
		id.qp, qp.id = nil, nil
		id.d.mu.Unlock()
	}
	return err
}

// Close ends the ID (rdma_destroy_id): a listener stops listening, a
// connection is disconnected or given up, and the peer is told, as often as it takes, while the device is open. A
// queue pair made by CreateQP is destroyed. Events of the ID that were not
// taken are dropped, and connection requests to it refused. Closing again does nothing.
func (id *CMID) Close() error {
	return id.d.doIfOpen(func(now int64) { id.closeLocked(now) })
}

func (id *CMID) closeLocked(now int64) {
	if id.closed {
		return
	}
	a := id.d.cm
	a.ready = true
	id.closed = true
	if id.listener != nil {
		id.listener.Close()
	}
	if id.conn != nil {
		id.conn.Destroy(now)
	}
	a.release(id)
	for _, g := range id.groups {
		id.leaveGroup(g)
	}
	if id.qp != nil {
		id.qp.id = nil
		if id.ownQP && id.qp.t != nil {
			_ = id.qp.t.Destroy() // the application may have been faster
		}
	}
	id.ch.forget(id)
}

// doIfOpen is do for calls that have nothing left to do on a closed device.
func (d *Device) doIfOpen(f func(now int64)) error {
	if d.lock() != nil {
		return nil
	}
	defer d.mu.Unlock()
	now := d.link.Now()
	d.settle(now)
	f(now)
	d.flush(now)
	return nil
}
