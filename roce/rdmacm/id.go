package rdmacm

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// PortSpace is the name space of an [ID]'s ports (rdma_port_space).
type PortSpace = mad.PortSpace

// The port spaces.
const (
	PortSpaceTCP = mad.PortSpaceTCP // reliable connections
	PortSpaceUDP = mad.PortSpaceUDP // datagrams
	PortSpaceIB  = mad.PortSpaceIB  // reliable connections, with ports apart from those of TCP
)

// ID is an identifier of the communication manager, like librdmacm's rdma_cm_id: a listener, one
// end of a connection, or one end of a datagram association. roce.Dial and roce.Listen are easier;
// ID is for programs written in the style of librdmacm.
//
// An active ID calls ResolveAddr, ResolveRoute, CreateQP, Connect. A passive one calls BindAddr and
// Listen and, on each ID that comes with an EventConnectRequest, CreateQP and Accept, or Reject. An
// event on the channel of the ID reports the outcome of each step.
//
// An ID moves its queue pair by itself: to INIT when it gets it, so that receives can be posted
// before the connection is accepted; to RTR and RTS when the peer has accepted, or before Accept
// tells the peer; to ERR when the connection ends.
type ID struct {
	d  *verbs.Device
	s  *shard.Shard
	a  *agent
	ps PortSpace

	// Context is for the application.
	Context any

	// All below is guarded by the lock of the shard.
	ch       *EventChannel
	local    netip.AddrPort
	bound    bool           // local holds a port
	remote   netip.AddrPort // from ResolveAddr on
	routed   bool           // ResolveRoute was called
	sgid     int            // index of local
	tos      uint8
	tries    int
	retryNs  int64
	memory   int // bytes, see SetHalfOpenCost
	silence  time.Duration
	qp       *verbs.QP
	ownQP    bool // made by CreateQP
	conn     *cm.Conn
	listener *cm.Listener
	req      *cm.Event // passive: the request
	reply    *mad.REP  // active, without a queue pair: the reply
	reuse    bool      // see SetReuseAddr
	param    ConnParam // active: the parameters of Connect
	met      bool      // datagrams: the lookup was answered successfully
	groups   []ib.GID  // multicast groups joined
	ended    bool      // by Disconnect
	exited   bool      // EventTimewaitExit waits for Disconnect
	closed   bool

	// Guarded by the lock of ch.
	firstEvent, lastEvent *Event
	offered               bool // a listener: in the list of ch
}

// CreateID makes an ID whose events go to ch (rdma_create_id).
func CreateID(ch *EventChannel, ps PortSpace) (*ID, error) {
	switch {
	case ch == nil || ch.s == nil:
		return nil, argError("create ID", "channel", "missing")
	case ps != PortSpaceTCP && ps != PortSpaceUDP && ps != PortSpaceIB:
		return nil, argError("create ID", "port space", ps.String()+" is not supported")
	}
	if err := ch.s.Lock(); err != nil {
		return nil, err
	}
	defer ch.s.Unlock()
	a, err := agentOf(ch.s)
	if err != nil {
		return nil, own(ch.d, err)
	}
	return a.newID(ch, ps), nil
}

func (a *agent) newID(ch *EventChannel, ps PortSpace) *ID {
	return &ID{d: ch.d, s: ch.s, a: a, ch: ch, ps: ps}
}

// do runs f with the lock held, unless the ID is closed.
func (id *ID) do(f func(now int64, a *agent) error) error {
	if id.s == nil {
		return access.ErrZero
	}
	return own(id.d, id.s.Command(func(now int64) error {
		if id.closed {
			return verbs.ErrClosed
		}
		id.a.ready = true
		return f(now, id.a)
	}))
}

// onQP runs f, which changes the queue pair, with the lock of its shard held; now is that shard's
// time. The lock of the ID is held; it is taken first.
func (id *ID) onQP(now int64, f func(now int64) error) error {
	return onShardOf(id.qp, id.s, now, f)
}

// onShardOf is onQP for a queue pair that the ID does not have yet, or has no longer. s is the
// shard of the ID.
func onShardOf(qp *verbs.QP, s *shard.Shard, now int64, f func(now int64) error) error {
	k := core.Open(qp).Shard()
	if k == s {
		return f(now)
	}
	return k.Command(f)
}

// event sends an event to the application.
func (id *ID) event(e Event) {
	e.ID = id
	id.ch.push(&e)
}

// Device returns the device of the ID.
func (id *ID) Device() *verbs.Device { return id.d }

// PortSpace returns the port space.
func (id *ID) PortSpace() PortSpace { return id.ps }

// QP returns the queue pair, or nil.
func (id *ID) QP() *verbs.QP {
	if id.s == nil {
		return nil
	}
	id.s.LockAlways()
	defer id.s.Unlock()
	return id.qp
}

// LocalAddr returns the local address and port.
func (id *ID) LocalAddr() netip.AddrPort {
	if id.s == nil {
		return netip.AddrPort{}
	}
	id.s.LockAlways()
	defer id.s.Unlock()
	return id.local
}

// RemoteAddr returns the address and port of the peer.
func (id *ID) RemoteAddr() netip.AddrPort {
	if id.s == nil {
		return netip.AddrPort{}
	}
	id.s.LockAlways()
	defer id.s.Unlock()
	return id.remote
}

// SetTypeOfService sets the traffic class of the connection to be made (RDMA_OPTION_ID_TOS). A
// passive ID uses the peer's unless it is set before Accept.
func (id *ID) SetTypeOfService(tos uint8) error {
	return id.do(func(int64, *agent) error { id.tos = tos; return nil })
}

// SetRetries sets how often Connect sends its request, and how long it waits between two tries: up
// to 1<<20 times and an hour. 0 means the default: 10 times, after 500 ms at first and then twice
// as long each time, up to 4 s: half a minute in all. A peer that answers that it needs time (MRA)
// gets up to 137 s more.
func (id *ID) SetRetries(tries int, interval time.Duration) error {
	switch {
	case tries < 0 || tries > MaxTries:
		return argError("set retries", "tries", fmt.Sprintf("%d, not 0 to %d", tries, MaxTries))
	case interval < 0 || interval > MaxRetryInterval:
		return argError("set retries", "interval", fmt.Sprintf("%v, not 0 to %v", interval, MaxRetryInterval))
	}
	return id.do(func(int64, *agent) error { id.tries, id.retryNs = tries, int64(interval); return nil })
}

// SetSilenceTimeout sets how long the connection outlasts a peer that does not answer: see
// [verbs.ConnAttr]. It affects connections made afterwards; 0, the default, leaves it to the
// retries. roce.ConnConfig and rsocket.Config have this option with a different default.
func (id *ID) SetSilenceTimeout(d time.Duration) error {
	if d < 0 || d > MaxSilenceTimeout {
		return argError("set silence timeout", "time", fmt.Sprintf("%v, not 0 to %v", d, MaxSilenceTimeout))
	}
	return id.do(func(int64, *agent) error { id.silence = d; return nil })
}

// SetHalfOpenCost sets how many bytes the application holds for a connection that it is about to
// accept. They bound how many connections can be half-open at a time, that is, until the peer
// confirms. Beyond 64 MiB on a device, requests wait in the backlog of their listener, and
// half-open connections whose peers have ignored them for 750 ms (less in a flood) are given up for
// them, with EventUnreachable. A roce.Listener calls it by itself.
func (id *ID) SetHalfOpenCost(bytes int) error {
	if bytes < 0 {
		return argError("set half-open cost", "bytes", fmt.Sprintf("%d, and the least is 0", bytes))
	}
	return id.do(func(int64, *agent) error { id.memory = bytes; return nil })
}

// Migrate moves the ID, and its events that were not taken, to another channel (rdma_migrate_id).
// An accepted connection usually gets a channel of its own.
func (id *ID) Migrate(ch *EventChannel) error {
	if ch == nil || ch.d != id.d {
		return argError("migrate ID", "channel", "missing or of another device")
	}
	return id.do(func(now int64, _ *agent) error {
		old := id.ch
		if old == ch {
			return nil
		}
		var moved []*Event
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

// CreateQP makes a queue pair for the ID (rdma_create_qp): RC in port space TCP; UD, ready to use,
// in UDP. a.Type may be UC in port space TCP. It is destroyed with the ID.
func (id *ID) CreateQP(pd *verbs.PD, a verbs.QPInitAttr) (*verbs.QP, error) {
	if pd == nil || pd.Device() != id.d {
		return nil, argError("create QP", "PD", "missing or of another device")
	}
	switch {
	case id.ps == PortSpaceUDP:
		a.Type = verbs.UD
	case a.Type == 0:
		a.Type = verbs.RC
	}
	qp, err := pd.CreateQP(a)
	if err != nil {
		return nil, err
	}
	if err := id.AttachQP(qp); err != nil {
		_ = qp.Close()
		return nil, err
	}
	id.s.LockAlways()
	id.ownQP = true
	id.s.Unlock()
	return qp, nil
}

// AttachQP makes the ID use a queue pair in RESET that the application made and still owns.
func (id *ID) AttachQP(qp *verbs.QP) error {
	if qp == nil || qp.Device() != id.d {
		return argError("attach QP", "QP", "missing or of another device")
	}
	if (id.ps == PortSpaceUDP) != (qp.Type() == verbs.UD) {
		return argError("attach QP", "QP", qp.Type().String()+" does not fit port space "+id.ps.String())
	}
	if err := id.do(func(now int64, _ *agent) error {
		err := onShardOf(qp, id.s, now, func(int64) error {
			if id.qp != nil || !core.Open(qp).Claim(id.commEstablished, id.unanswered) {
				return argError("attach QP", "QP", "the ID has one, or the queue pair belongs to another ID")
			}
			return nil
		})
		if err == nil {
			id.qp = qp
		}
		return err
	}); err != nil {
		return err
	}
	var err error
	if qp.Type() == verbs.UD {
		err = qp.Activate(UDQKey)
	} else {
		err = qp.ToInit(0)
	}
	if err != nil {
		_ = id.do(func(now int64, _ *agent) error {
			id.qp = nil
			return releaseQP(qp, id.s, now, false)
		}) // fails only if there is nothing left to release
	}
	return err
}

// releaseQP undoes AttachQP, and destroys the queue pair if destroy is set. The lock of s, the
// shard of the ID, is held.
func releaseQP(qp *verbs.QP, s *shard.Shard, now int64, destroy bool) error {
	return onShardOf(qp, s, now, func(int64) error {
		core.Open(qp).Release()
		if destroy {
			return core.Open(qp).QP().Destroy()
		}
		return nil
	})
}

// Close ends the ID (rdma_destroy_id): a listener stops listening; a connection is disconnected or
// given up, and the peer is told, repeatedly if necessary, while the device is open. A queue pair
// made by CreateQP is destroyed. Events of the ID that were not taken are dropped, and connection
// requests to it refused.
func (id *ID) Close() error {
	return doIfOpen(id.s, func(now int64) { id.closeLocked(now) })
}

func (id *ID) closeLocked(now int64) {
	if id.closed {
		return
	}
	a := id.a
	a.ready = true
	id.closed = true
	id.unlisten()
	if id.conn != nil {
		id.conn.Destroy(now)
	}
	a.release(id)
	for _, g := range id.groups {
		id.leaveGroup(now, g)
	}
	if id.qp != nil {
		_ = releaseQP(id.qp, id.s, now, id.ownQP) // the application may have destroyed it first
	}
	id.ch.forget(id)
}

// doIfOpen is Shard.Command for calls that have nothing left to do on a closed device.
func doIfOpen(s *shard.Shard, f func(now int64)) error {
	if s != nil {
		_ = s.Command(func(now int64) error { f(now); return nil }) // fails only if it is closed
	}
	return nil
}
