package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// PacketConn is a datagram socket: a net.PacketConn and, after Connect, a net.Conn. As with UDP a
// datagram may be lost but arrives whole and at most once, and in any order. It has at most 2032
// bytes with IPv4 and 2020 with IPv6. See the package comment for the protocol.
//
// All methods may be called from any goroutine.
type PacketConn struct {
	cfg     PacketConfig
	device  *verbs.Device // nil: cfg.DeviceFor chooses
	service *packetService
	served  chan struct{} // closed when the service has ended
	rd, wr  deadline

	// mu guards all below and is held only briefly.
	mu     sync.Mutex
	queues []*packetQueue
	peers  peerTable
	ready  []datagram // datagrams received, the oldest first
	kept   int        // of those, how many hold memory of their own
	remote netip.AddrPort
	local  netip.AddrPort
	out    []byte // a message to a UDP port
	stats  PacketStats
	told   error // the kernel's report about the peer, for the next call
	err    error // why nothing works any more
	closed bool
	plain  bool // see SpeakPlain

	notify atomic.Pointer[func()]

	eventMu sync.Mutex // taken after the lock of a device
	changed chan struct{}
}

// datagram is a received datagram.
type datagram struct {
	from  netip.AddrPort
	queue *packetQueue // the owner of its slot; nil: data is its own
	slot  int
	data  []byte
}

// PacketStats counts what a socket has done since it was made.
type PacketStats struct {
	Received uint64 // datagrams received for the application
	Sent     uint64 // datagrams that were sent
	// Of those, by the peer's UDP port, because its queue pair was unknown or the datagram too long
	// for a packet.
	Asked uint64
	Peers int // peers whose queue pairs are known or asked for
	// Discarded datagrams. Malformed ones break the protocol, or claim to come from another host;
	// Foreign ones come from others than the connected peer; Overflow ones came by UDP when the
	// receive queue was full. The device's counters have the datagrams that found no receive on the
	// queue pair.
	Malformed, Foreign, Overflow uint64
}

// Bounds.
const (
	defaultPackets = 128
	minPackets     = 4
	maxPackets     = 16384
	maxPacketPeers = 4096
	// partingTime bounds how long Close waits for datagrams that are being sent.
	partingTime = time.Second
)

// PacketConfig has the options of a datagram socket. The zero value has the defaults.
type PacketConfig struct {
	// Device is where the socket is; nil lets DeviceFor choose, for each local address.
	Device *verbs.Device
	// SendQueue and RecvQueue are how many datagrams can wait to be sent, and to be read, for each
	// local address in use; 0 is 128, from 4 to 16384. A datagram that comes when RecvQueue of them
	// wait is lost.
	SendQueue, RecvQueue int
	// TrafficClass is that of the packets.
	TrafficClass uint8
	// DualStack makes a socket at the unspecified IPv6 address also serve IPv4.
	DualStack bool
	// DeviceFor chooses the device for a local address, which may be invalid or unspecified, and a
	// peer, if Device is nil; nil is [roce.DefaultDeviceFor].
	DeviceFor func(local, peer netip.Addr) (*verbs.Device, error)
	// Control is called with the UDP socket before it is bound: see net.ListenConfig.
	Control func(network, address string, c syscall.RawConn) error
}

// ListenAddr makes a datagram socket at an address. The unspecified address stands for all
// addresses, port 0 for a free port, and an invalid address for the first one of Device. The socket
// also takes the kernel's UDP port of this number. Errors are *net.OpError.
func (cfg *PacketConfig) ListenAddr(addr netip.AddrPort) (*PacketConn, error) {
	c, err := cfg.listen(addr)
	if err != nil {
		return nil, opError("listen", Addr{addr}, Addr{}, dialError(err))
	}
	return c, nil
}

func (cfg *PacketConfig) listen(addr netip.AddrPort) (*PacketConn, error) {
	n := PacketConfig{}
	if cfg != nil {
		n = *cfg
	}
	for _, v := range []struct {
		name  string
		value *int
	}{{"SendQueue", &n.SendQueue}, {"RecvQueue", &n.RecvQueue}} {
		if err := checkRange("listen", v.name, *v.value, maxPackets); err != nil {
			return nil, err
		}
		if *v.value == 0 {
			*v.value = defaultPackets
		}
		*v.value = max(*v.value, minPackets)
	}
	if n.DeviceFor == nil {
		n.DeviceFor = roce.DefaultDeviceFor
	}
	d := n.Device
	if d != nil {
		switch all := d.Addrs(); {
		case access.Shard(d) == nil || access.Shard(d).Closed():
			return nil, net.ErrClosed
		case d.Capabilities().Virtual:
			return nil, errors.ErrUnsupported // a simulated network has no UDP sockets
		case !addr.Addr().IsValid():
			addr = netip.AddrPortFrom(all[0], addr.Port())
		case !addr.Addr().IsUnspecified() && !slices.Contains(d.GIDs(), ib.GIDFromAddr(addr.Addr().WithZone(""))):
			return nil, roce.ErrAddrNotLocal
		}
	}
	if !addr.Addr().IsValid() {
		addr = netip.AddrPortFrom(netip.IPv4Unspecified(), addr.Port())
	}
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	s, err := openService(addr, n.DualStack, n.Control)
	if err != nil {
		return nil, err
	}
	c := &PacketConn{cfg: n, device: d, service: s, local: s.local, served: make(chan struct{}),
		peers: peerTable{most: maxPacketPeers}}
	c.rd.init()
	c.wr.init()
	go c.serve()
	return c, nil
}

// valid reports whether c was made by ListenAddr; nil and the zero PacketConn were not.
func (c *PacketConn) valid() bool { return c != nil && c.service != nil }

// LocalAddr returns the address of the socket, an Addr.
func (c *PacketConn) LocalAddr() net.Addr {
	if !c.valid() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Addr{c.local}
}

// RemoteAddr returns the address that the socket is connected to, an Addr; nil if it is not
// connected.
func (c *PacketConn) RemoteAddr() net.Addr {
	if !c.valid() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remote.IsValid() {
		return nil
	}
	return Addr{c.remote}
}

// Stats returns a snapshot of the counters.
func (c *PacketConn) Stats() PacketStats {
	if !c.valid() {
		return PacketStats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Peers = len(c.peers.by)
	return s
}

// Connect sets the peer of Read and Write, and the only one whose datagrams are received. It sends
// nothing. Datagrams already received from others are dropped. Another call changes the peer.
func (c *PacketConn) Connect(to netip.AddrPort) error {
	if !c.valid() {
		return errInvalid
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.usable()
	var p *packetPeer
	if err == nil {
		p, err = c.peer(to)
	}
	if err == nil {
		err = c.service.connect(to)
	}
	if err == nil {
		c.remote, c.local = to, p.queue.addr
		c.filter()
	}
	return opError("connect", Addr{c.local}, Addr{to}, dialError(err))
}

// filter drops datagrams that are not from the peer. mu is held.
func (c *PacketConn) filter() {
	all := c.ready
	c.ready = nil
	for _, p := range all {
		if p.from == c.remote {
			c.ready = append(c.ready, p)
			continue
		}
		c.stats.Foreign++
		c.giveBack(p)
	}
}

// usable returns why no call can be served, or nil. mu is held.
func (c *PacketConn) usable() error {
	if c.closed {
		return net.ErrClosed
	}
	return c.err
}

// peer returns the entry of a peer; it makes one, and a queue pair to reach it, if necessary. mu is
// held.
func (c *PacketConn) peer(to netip.AddrPort) (*packetPeer, error) {
	if p := c.peers.find(to); p != nil {
		return p, nil
	}
	return c.newPeer(to, c.local.Addr())
}

// newPeer enters a peer, reached from a local address if one is given.
func (c *PacketConn) newPeer(to netip.AddrPort, from netip.Addr) (*packetPeer, error) {
	switch a := to.Addr(); {
	case !a.IsValid() || to.Port() == 0 || a.IsUnspecified():
		return nil, argError("write", "addr", "invalid")
	case a.IsMulticast():
		return nil, syscall.EOPNOTSUPP // the protocol asks one peer for its queue pair
	case a.Is4() && c.service.v6 && !c.cfg.DualStack, a.Is6() && !c.service.v6:
		return nil, syscall.EAFNOSUPPORT
	}
	q, err := c.queue(from, to.Addr())
	if err != nil {
		return nil, err
	}
	p := &packetPeer{addr: to, queue: q}
	c.peers.add(p)
	return p, nil
}

// queue returns the queue pair for a local address, if one is given, and a peer.
func (c *PacketConn) queue(from, to netip.Addr) (q *packetQueue, err error) {
	d := c.device
	if d == nil {
		if d, err = c.cfg.DeviceFor(from, to); err != nil {
			return nil, err
		}
	}
	if !from.IsValid() || from.IsUnspecified() {
		i, err := d.GIDIndexFor(ib.GIDFromAddr(to.WithZone("")))
		if err != nil {
			return nil, err
		}
		from = d.GIDs()[i].Addr()
	}
	for _, q := range c.queues {
		if q.dev == d && q.addr.Addr() == from {
			return q, nil
		}
	}
	q, err = newPacketQueue(d, netip.AddrPortFrom(from, c.service.local.Port()), &c.cfg, func(*verbs.CQ) { c.event() })
	if err != nil {
		return nil, err
	}
	c.queues = append(c.queues, q)
	c.event() // waiting calls must also wait for this one
	return q, nil
}

// fail records why nothing works any more. mu is held.
func (c *PacketConn) fail(err error) {
	if c.err != nil {
		return
	}
	if errors.Is(err, roce.ErrClosed) {
		err = net.ErrClosed // the device was closed
	}
	c.err = err
	c.event()
}

// Close ends the socket. It waits until all written datagrams are sent, which takes moments. A
// second Close does nothing and returns nil.
func (c *PacketConn) Close() error {
	if !c.valid() {
		return nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	_ = c.service.close()
	<-c.served
	c.rd.kill()
	c.wr.kill()
	c.event()
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers.clear()
	var errs []error
	for _, q := range c.queues {
		errs = append(errs, q.release())
	}
	c.queues, c.ready = nil, nil
	return opError("close", Addr{c.local}, Addr{c.remote}, errors.Join(errs...))
}

// flush waits until the sends are over.
func (c *PacketConn) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	for tries := 0; ; tries++ {
		c.mu.Lock()
		changed := c.arm()
		c.look()
		var busy *verbs.Device
		for _, q := range c.queues {
			if len(q.sends) < q.most {
				busy = q.dev
			}
		}
		over := c.err != nil || busy == nil
		c.mu.Unlock()
		if over || access.Wait(busy, ctx, changed, tries) != nil {
			return
		}
	}
}
