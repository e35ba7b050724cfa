package roce

import (
	"context"
	"net/netip"
	"sync"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Conn is a reliable connection. It has two faces, which can be used together.
//
// Messages and memory: Send and Recv exchange messages; Write, Read, FetchAdd and CompareSwap work
// on memory that the peer has registered and shared (see Share and Shared). These calls take plain
// byte slices, copy them through a pool of registered buffers, and return when the operation is
// complete. The variants whose names begin with Start work on registered memory without copying,
// and return a [Pending] at once.
//
// Verbs: QP, CQ and PD return the underlying objects, for everything else.
//
// All methods may be called from any goroutine. Operations are carried out in the order in which
// they were started. As RDMA requires, a failed operation ends the connection and fails all
// operations that were started later.
type Conn struct {
	d      *verbs.Device
	s      *shard.Shard // of the completion queue
	id     *rdmacm.ID
	ch     *rdmacm.EventChannel
	pd     *verbs.PD
	ownPD  bool
	cq     *verbs.CQ
	cqWait access.Waiter[verbs.WC]
	qp     *verbs.QP
	pool   *verbs.BufPool
	cfg    ConnConfig
	use    *deviceUse
	of     *Listener // the listener that accepted it; nil: dialed

	local, remote netip.AddrPort
	private       []byte // of the peer
	peerMax       int    // MaxMessage

	mu        sync.Mutex
	wcs       []verbs.WC
	ops       map[uint64]*Pending
	nextOp    uint64
	posted    int // send requests that have not completed
	loose     int // those of them that no operation stands for: the rest of theirs was not posted
	carrying  int // operations that carry something to the peer
	owed      int // operations begun with Start that no caller waits for
	failed    int // operations begun with Start that failed without a caller learning of it
	recvs     recvBuffers
	inbox     []Message
	raw       []verbs.WC // completions of the application's own work requests
	leading   bool
	followers []*shard.Signal // in order of arrival
	regions   []*verbs.MR
	keep      *shard.Alarm // the next probe; nil: none
	flushed   bool         // the queue pair is in ERR
	failure   error        // the first completion that was neither success nor flushed
	peerGone  bool
	closed    bool
	hurry     bool // Close must not wait any longer
	ended     bool // Close has waited
	lost      error
	deadlines [numWaits]connDeadline
	traffic   traffic
	calm      calm
	last      verbs.QPStats // before Close
	served    bool          // a Server's handler has the connection
	ending    bool          // the handler must end rather than wait for messages, except while
	work      int           // this many BeginWork calls are open
	told      bool          // the end has been logged

	freeing sync.Mutex
	freed   bool // under freeing: nothing is left
}

// newConn makes the objects of a connection around an ID that has an address, and posts the
// receives. On failure it ends the ID and tells a peer that requested the connection that resources
// ran out.
func newConn(ctx context.Context, id *rdmacm.ID, cfg *ConnConfig) (_ *Conn, err error) {
	d := id.Device()
	c := &Conn{
		d: d, id: id, pd: cfg.PD, cfg: cfg.withDefaults(), use: useOf(d), ops: map[uint64]*Pending{},
		wcs: make([]verbs.WC, 32),
	}
	defer func() {
		if err != nil {
			refuse(id, mad.RejectNoResources, err) // nothing to refuse on the active side
			_ = c.free()                           // the first error counts
		}
	}()
	if err = c.use.admits(); err != nil {
		return nil, err
	}
	if err = id.SetSilenceTimeout(max(c.cfg.SilenceTimeout, 0)); err != nil {
		return nil, err
	}
	if c.pd == nil {
		if c.pd, err = d.AllocPD(); err != nil {
			return nil, err
		}
		c.ownPD = true
	} else if c.pd.Device() != d {
		return nil, argError("connect", "PD", "of another device")
	}
	sends := c.cfg.SendDepth + 1 // one for a probe
	if c.cq, err = d.CreateCQ(sends+c.cfg.RecvDepth, &verbs.CQOptions{Vector: access.NextVector(d)}); err != nil {
		return nil, err
	}
	if c.ch, err = rdmacm.CreateEventChannel(d); err != nil {
		return nil, err
	}
	c.cqWait = access.Waiting(c.cq)
	c.s = c.cqWait.Shard()
	core.Open(c.ch).Also(c.cqWait.Signal())
	c.pool = verbs.NewBufPool(c.pd, verbs.DefaultPoolBytes)
	if c.qp, err = id.CreateQP(c.pd, verbs.QPInitAttr{
		SendCQ: c.cq, Caps: verbs.QPCaps{MaxSendWR: sends, MaxRecvWR: c.cfg.RecvDepth, MaxInline: connInline},
	}); err != nil {
		return nil, err
	}
	if err = c.postRecvs(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// ready records what is known once the connection is established, or about to be.
func (c *Conn) ready(private []byte) {
	c.local, c.remote = c.id.LocalAddr(), c.id.RemoteAddr()
	var version byte
	c.peerMax, c.private, version = introduction(private)
	c.calm.able = version >= 2
	c.use.conns.add(c)
}

// gone removes the connection from every set that lists it.
func (c *Conn) gone() {
	c.use.conns.remove(c)
	if c.of != nil {
		c.of.leave(c)
	}
}

// LocalAddr returns the local address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr returns the address and port of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// PrivateData returns the private data that the peer sent when it connected or accepted, padded
// with zeros: 56 bytes on the passive side, 196 on the active one. The last 12 carry the
// introduction of the connections themselves ([Conn.MaxMessage]) if the application's data leaves
// room; they read as 0 here.
func (c *Conn) PrivateData() []byte { return c.private }

// Device returns the device of the connection.
func (c *Conn) Device() *verbs.Device { return c.d }

// ID returns the underlying identifier of the communication manager. It must not be closed or
// migrated.
func (c *Conn) ID() *rdmacm.ID { return c.id }

// QP returns the underlying queue pair. Work requests that the application posts to it must have
// IDs below 1<<62; their completions come from [Conn.Completion]. The connection owns the state of
// the queue pair and its receives.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD returns the protection domain of the connection.
func (c *Conn) PD() *verbs.PD { return c.pd }

// Pool returns the pool of buffers of the connection.
func (c *Conn) Pool() *verbs.BufPool { return c.pool }

// Register registers memory for operations of this connection and, with rights other than
// LocalWrite, for those of the peer; send the peer what MR.Remote returns. Closing the connection
// closes the region too. For options see PD and [verbs.PD.RegisterMR].
func (c *Conn) Register(buf []byte, access verbs.Access) (*verbs.MR, error) {
	mr, err := c.PD().RegisterMR(buf, access, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed: // whatever the closed domain says of it
		if err == nil {
			_ = mr.Close()
		}
		return nil, c.opError("register", verbs.ErrClosed)
	case err != nil:
		return nil, c.opError("register", err)
	}
	c.regions = append(c.regions, mr)
	return mr, nil
}

func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.OpError{Op: op, Local: c.local, Remote: c.remote, Err: err}
}
