package roce

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/ib/mad"
)

// Defaults of connections made by [Dial] and [Listen].
const (
	DefaultRecvDepth = 32      // messages that can wait for Recv
	DefaultRecvBytes = 8 << 10 // longest message that Recv takes
	DefaultSendDepth = 128     // operations in progress
	connInline       = 256     // bytes up to which Send needs no buffer
)

// ConnConfig are the properties of connections that [Dialer] and [ListenConfig]
// have in common. The zero value is what [Dial] and [Listen] use.
type ConnConfig struct {
	// Device is what the connections are made on. Nil is one that the process
	// opens for the local address and keeps (see [DefaultDevice]).
	Device *Device
	// PD is the protection domain of the connections. Nil gives each connection
	// its own, so that a key given to one peer is of no use to another. With a PD
	// of the application, memory can be registered once for many connections.
	PD *PD

	RecvDepth int // messages that can wait for Recv; 0 is DefaultRecvDepth
	RecvBytes int // longest message that Recv takes; 0 is DefaultRecvBytes
	SendDepth int // operations in progress; 0 is DefaultSendDepth

	// KeepAlive is the time between probes of a connection that sends nothing,
	// which find a peer that has vanished; 0 is DefaultKeepAlive, and negative sends none. The peer's
	// adapter answers them, so that an idle peer need not be one of ours.
	KeepAlive time.Duration

	// Param is what else is negotiated; nil is DefaultConnParam. PrivateData is
	// what the peer finds with Conn.PrivateData.
	Param *ConnParam
}

func (c *ConnConfig) withDefaults() ConnConfig {
	d := *c
	for _, f := range []struct {
		p   *int
		def int
	}{{&d.RecvDepth, DefaultRecvDepth}, {&d.RecvBytes, DefaultRecvBytes}, {&d.SendDepth, DefaultSendDepth}} {
		if *f.p <= 0 {
			*f.p = f.def
		}
	}
	if d.KeepAlive == 0 {
		d.KeepAlive = DefaultKeepAlive
	}
	return d
}

// connBytes is what a connection holds besides its receive buffers, about, and with
// the default depths.
const connBytes = 32 << 10

// memory returns what a connection holds when it is accepted, in bytes.
func (c *ConnConfig) memory() int {
	d := c.withDefaults()
	return connBytes + d.RecvDepth*d.RecvBytes
}

// Conn is a reliable connection. It has two faces, which can be used together.
//
// Messages and memory: Send and Recv exchange messages; Write, Read, FetchAdd
// and CompareSwap work on memory of the peer that it has registered and told
// us about (Share and Shared do that). These calls take plain byte slices, copy them through a pool of registered buffers, and return when the
// operation is complete. Their counterparts that begin with Start work on
// registered memory without copying, and return a [Pending] at once.
//
// Verbs: QP, CQ and PD return the objects beneath, for everything else.
//
// All methods may be called from any goroutine. Operations are carried out in
// the order in which they were started. A failed operation ends the
// connection, as RDMA has it, and with it all that were started later.
type Conn struct {
	d     *Device
	id    *CMID
	ch    *EventChannel
	pd    *PD
	ownPD bool
	cq    *CQ
	qp    *QP
	pool  *BufPool
	cfg   ConnConfig

	local, remote netip.AddrPort
	private       []byte // of the peer

	mu        sync.Mutex
	wcs       []WC
	ops       map[uint64]*Pending
	nextOp    uint64
	posted    int // send requests that have not completed
	recvs     []*Buf
	inbox     []Message
	raw       []WC // completions of the application's own work requests
	leading   bool
	followers map[signal]struct{}
	regions   []*MR
	keep      *time.Timer // the next probe; nil: none
	flushed   bool        // the queue pair is in ERR
	failure   error       // the first completion that was neither success nor flushed
	peerGone  bool
	closed    bool
}

// newConn makes the objects of a connection around an ID that has an address,
// and posts the receives. If it fails it ends the ID; who has asked for the
// connection is told that there is no room.
func newConn(id *CMID, cfg *ConnConfig) (_ *Conn, err error) {
	d := id.d
	c := &Conn{
		d: d, id: id, pd: cfg.PD, cfg: cfg.withDefaults(), ops: map[uint64]*Pending{},
		followers: map[signal]struct{}{}, wcs: make([]WC, 32),
	}
	defer func() {
		if err != nil {
			refuse(id, mad.RejectNoResources, err) // nothing to refuse on the active side
			_ = c.free()                           // the first error counts
		}
	}()
	if c.pd == nil {
		if c.pd, err = d.AllocPD(); err != nil {
			return nil, err
		}
		c.ownPD = true
	} else if c.pd.d != d {
		return nil, &ArgError{"connect", "PD", "of another device"}
	}
	sends := c.cfg.SendDepth + 1 // one for a probe
	if c.cq, err = d.CreateCQ(sends+c.cfg.RecvDepth, nil); err != nil {
		return nil, err
	}
	if c.ch, err = d.CreateEventChannel(); err != nil {
		return nil, err
	}
	c.ch.also = c.cq.notify
	c.pool = NewBufPool(c.pd, DefaultPoolBytes+2*c.cfg.RecvDepth*c.cfg.RecvBytes)
	if c.qp, err = id.CreateQP(c.pd, QPInitAttr{
		SendCQ: c.cq, Caps: QPCaps{MaxSendWR: sends, MaxRecvWR: c.cfg.RecvDepth, MaxInline: connInline},
	}); err != nil {
		return nil, err
	}
	c.recvs = make([]*Buf, c.cfg.RecvDepth)
	for i := range c.recvs {
		if c.recvs[i], err = c.pool.Get(c.cfg.RecvBytes); err != nil {
			return nil, err
		}
		if err = c.postRecv(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ready notes what is known when the connection is established.
func (c *Conn) ready(private []byte) {
	c.local, c.remote, c.private = c.id.LocalAddr(), c.id.RemoteAddr(), private
}

// LocalAddr returns the local address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr returns the address and port of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// PrivateData returns what the peer sent along when it connected or accepted,
// filled up with zeros: 56 bytes on the passive side, 196 on the active one.
func (c *Conn) PrivateData() []byte { return c.private }

// Device returns the device of the connection.
func (c *Conn) Device() *Device { return c.d }

// ID returns the identifier of the communication manager beneath. It must not
// be closed or migrated.
func (c *Conn) ID() *CMID { return c.id }

// QP returns the queue pair beneath. Work requests that the application posts
// to it must have IDs below 1<<62; their completions come from
// [Conn.Completion]. The state of the queue pair and its receives are the connection's.
func (c *Conn) QP() *QP { return c.qp }

// PD returns the protection domain of the connection.
func (c *Conn) PD() *PD { return c.pd }

// Pool returns the pool of buffers of the connection.
func (c *Conn) Pool() *BufPool { return c.pool }

// Register registers memory for operations of this connection and, with
// rights other than LocalWrite, for those of the peer; tell it what MR.Remote
// returns. It is deregistered when the connection is closed, if it was not
// before.
func (c *Conn) Register(buf []byte, access Access, opts ...RegOption) (*MR, error) {
	mr, err := c.pd.RegisterMR(buf, access, opts...)
	if err != nil {
		return nil, c.opError("register", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = mr.Deregister()
		return nil, c.opError("register", ErrClosed)
	}
	c.regions = append(c.regions, mr)
	return mr, nil
}

func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Local: c.local, Remote: c.remote, Err: err}
}

// Close ends the connection at once: operations in progress fail, as do calls
// that wait, and the peer is told. Wait for operations first that have to
// succeed. Memory from Register is deregistered, and messages from RecvMsg must
// not be used any more. Closing again does nothing.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	if c.keep != nil {
		c.keep.Stop()
	}
	c.wake()
	c.mu.Unlock()
	c.cq.notify.set()
	return c.opError("close", c.free())
}

// free releases what newConn made, as far as it came.
func (c *Conn) free() error {
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	note(c.id.Close())
	if c.ch != nil {
		note(c.ch.Close())
	}
	if c.cq != nil {
		note(c.cq.Close())
	}
	for _, mr := range c.regions {
		_ = mr.Deregister() // the application may have been faster
	}
	if c.pool != nil {
		note(c.pool.Close())
	}
	if c.ownPD {
		note(c.pd.Dealloc())
	}
	return errors.Join(errs...)
}
