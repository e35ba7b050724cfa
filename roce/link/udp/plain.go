package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// Plain is the link for systems other than Linux: a UDP socket of package net for each address, one
// datagram and one system call for each packet, and a goroutine that reads. It does not share
// addresses, sees neither traffic classes nor ICMP, and follows no interface.
//
// The system chooses the IPv4 identification; Plain computes the ICRC for 0 and don't fragment. A
// peer on a udp link does not see the field, and accepts that. rxe, cards and the packet link see
// it, and accept only packets of systems that send 0. IPv6 has no such field.
type Plain struct {
	opts  Options
	port  uint16
	start time.Time
	addrs []netip.Addr
	socks []*plainSocket
	mtu   ib.MTU
	life  sockio.Life

	wake  chan struct{}
	timer *time.Timer // of Wait

	mu    sync.Mutex
	room  sync.Cond
	queue []plainPacket // arrived
	free  [][]byte
	taken []plainPacket // taken by Recv, not yet split: the first is at index next
	next  int
	calls atomic.Uint64
	// Packets: all that were read; those that Recv has handed up; and all that were read at the
	// last Mark.
	arrived, handed, mark uint64
	split                 receive.Splitter
	stats                 transmit.Counters
	buf                   []byte // of Send
	wg                    sync.WaitGroup
}

type plainSocket struct {
	conn *net.UDPConn
	addr netip.Addr // without a zone
	zone string
}

type plainPacket struct {
	buf  []byte
	from netip.AddrPort
	to   netip.Addr
}

// plainPath is the link's state of a edge.Path.
type plainPath struct {
	l    *Plain
	conn *net.UDPConn
	dst  netip.AddrPort
	icrc transmit.ICRC
}

// plainRing is how many packets wait to be taken; more wait in the socket.
const plainRing = 1024

// maxPlainErrors is how often a read may fail in a row.
const maxPlainErrors = 100

var _ link.Link = (*Plain)(nil)

// OpenAny opens this system's link: that of Open on Linux, a plain one elsewhere.
func OpenAny(addrs []netip.Addr, o Options) (link.Link, error) {
	if unix.Linux {
		return Open(addrs, o)
	}
	return OpenPlain(addrs, o)
}

// OpenPlain opens the link. It uses the options Port, SocketBufferBytes, MTU and RxeFlush.
func OpenPlain(addrs []netip.Addr, o Options) (*Plain, error) {
	if err := sockio.CheckBuffers(o.SocketBufferBytes, o.RxBuffers); err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &OpenError{Err: errors.New("no local address given")}
	}
	l := &Plain{opts: o, port: o.Port, start: time.Now(), mtu: ib.MTU4096, wake: make(chan struct{}, 1),
		timer: time.NewTimer(0)}
	l.room.L = &l.mu
	if l.port == 0 {
		l.port = ib.UDPPort
	}
	l.split.Init(l.port)
	for _, a := range addrs {
		if err := l.open(a.Unmap()); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	if o.MTU.Valid() {
		l.mtu = o.MTU
	}
	for range plainRing {
		l.free = append(l.free, make([]byte, ib.MaxPacketBytes+1)) // one byte more reveals packets that are too long
	}
	l.wg.Add(len(l.socks))
	for _, s := range l.socks {
		go l.read(s)
	}
	return l, nil
}

func (l *Plain) open(a netip.Addr) error {
	if err := endpoint.CheckAddr(a, l.addrs); err != nil {
		return err
	}
	if ifi, err := sockio.InterfaceOf(a); err == nil && ifi != nil && ifi.MTU > 0 {
		m, err := endpoint.CheckMTU(a, ifi.Name, ifi.MTU)
		if err != nil {
			return err
		}
		l.mtu = min(l.mtu, m)
	}
	network := "udp4"
	if a.Is6() {
		network = "udp6"
	}
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, l.port)))
	if inUse(err) {
		return &OpenError{
			Addr: a, Err: fmt.Errorf("%w: %w", syscall.EADDRINUSE, err),
			Hint: "another process has the address, or this one: only on Linux several share one; give each an address of its own",
		}
	}
	if err != nil {
		return &OpenError{Addr: a, Err: err}
	}
	size := l.opts.SocketBufferBytes
	if size == 0 {
		size = defaultSocketBuffer
	}
	for ; size > 64<<10; size /= 2 { // some systems refuse excessive sizes
		if errors.Join(c.SetReadBuffer(size), c.SetWriteBuffer(size)) == nil {
			break
		}
	}
	l.addrs = append(l.addrs, a.WithZone(""))
	l.socks = append(l.socks, &plainSocket{conn: c, addr: a.WithZone(""), zone: a.Zone()})
	return nil
}

// inUse reports whether the port is taken. Windows has a number of its own for that.
func inUse(err error) bool {
	const wsaEAddrInUse = syscall.Errno(10048)
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaEAddrInUse)
}

// read puts received packets into the queue.
func (l *Plain) read(s *plainSocket) {
	defer l.wg.Done()
	for failed := 0; ; {
		l.mu.Lock()
		for len(l.free) == 0 && l.life.Err() == nil {
			l.room.Wait()
		}
		if l.life.Err() != nil {
			l.mu.Unlock()
			return
		}
		buf := l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
		l.mu.Unlock()

		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		l.calls.Add(1)
		l.mu.Lock()
		if err != nil {
			l.free = append(l.free, buf)
		} else {
			l.queue = append(l.queue, plainPacket{buf[:n], from, s.addr})
			l.arrived++
		}
		l.mu.Unlock()
		if err == nil {
			failed = 0
			l.Wake()
			continue
		}
		// About an earlier datagram, or one that is too long (Windows).
		if failed++; errors.Is(err, net.ErrClosed) || failed > maxPlainErrors {
			l.life.Fail(err)
			l.mu.Lock()
			l.room.Broadcast()
			l.mu.Unlock()
			l.Wake()
			return
		}
	}
}

// Now returns the time since the link was opened, in nanoseconds.
func (l *Plain) Now() int64 { return int64(time.Since(l.start)) }

// Addrs returns the local addresses.
func (l *Plain) Addrs() []netip.Addr { return slices.Clone(l.addrs) }

// MTU returns the largest path MTU that the interfaces carried when the link was opened.
func (l *Plain) MTU() ib.MTU { return l.mtu }

// Blocked returns false: packets wait in the socket, not in the link.
func (l *Plain) Blocked() bool { return false }

// Send sends each packet as a datagram. It waits while the socket is full.
func (l *Plain) Send(batch []edge.TxPacket) {
	if l.life.Err() != nil {
		l.stats.Dropped.Add(uint64(len(batch)))
		return
	}
	for i := range batch {
		p := &batch[i]
		ps := l.pathOf(p.Path)
		if ps == nil {
			l.stats.Dropped.Add(1)
			continue
		}
		l.buf = ps.icrc.Append(l.buf[:0], p)
		l.stats.Calls.Add(1)
		if _, err := ps.conn.WriteToUDPAddrPort(l.buf, ps.dst); err != nil {
			if errors.Is(err, syscall.EMSGSIZE) {
				l.stats.TooLong(p.Path, 1)
			} else {
				l.stats.Dropped.Add(1)
			}
			continue
		}
		l.stats.Sent(1, 1, len(l.buf))
	}
}

// pathOf returns the link's state of a path; nil if its source is not local.
func (l *Plain) pathOf(p *edge.Path) *plainPath {
	if s, ok := p.Link.(*plainPath); ok && s.l == l {
		return s
	}
	i := slices.IndexFunc(l.socks, func(s *plainSocket) bool { return s.addr == p.Src })
	if i < 0 || p.Dst.Is4() != p.Src.Is4() {
		return nil
	}
	dst := p.Dst
	if dst.IsLinkLocalUnicast() && dst.Is6() {
		dst = dst.WithZone(l.socks[i].zone)
	}
	s := &plainPath{l: l, conn: l.socks[i].conn, dst: netip.AddrPortFrom(dst, l.port), icrc: transmit.ICRC{
		ICRC:     ib.NewICRC(ib.Flow{Src: p.Src, Dst: p.Dst, SrcPort: l.port, DstPort: l.port}),
		RxeFlush: l.opts.RxeFlush,
	}}
	p.Link = s
	return s
}

// Recv hands up what has arrived; see [link.Link].
func (l *Plain) Recv(batch []edge.RxPacket) (int, error) {
	if err := l.life.Err(); err != nil {
		return 0, err
	}
	if len(batch) == 0 {
		return 0, nil
	}
	for n := 0; ; {
		if l.next == len(l.taken) && (n > 0 || !l.take()) {
			l.split.Publish()
			return n, nil
		}
		for ; l.next < len(l.taken) && n < len(batch); l.next++ {
			p := &l.taken[l.next]
			l.handed++
			d := receive.Datagram{Data: p.buf, HopLimit: defaultTTL, Source: link.Source{
				Src: p.from.Addr().Unmap().WithZone(""), Dst: p.to, SrcPort: p.from.Port(),
			}}
			if l.split.Begin(&d) {
				n += l.split.Split(batch[n:])
			}
		}
		if n == len(batch) {
			l.split.Publish()
			return n, nil
		}
	}
}

// take frees the buffers of packets that were handed up, and takes what has arrived.
func (l *Plain) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.taken {
		l.free = append(l.free, l.taken[i].buf[:cap(l.taken[i].buf)])
	}
	l.room.Broadcast()
	l.taken, l.queue = l.queue, l.taken[:0]
	l.next = 0
	l.split.Received(len(l.taken))
	return len(l.taken) > 0
}

// Wait blocks until something has arrived, Wake was called, or the timeout has passed.
func (l *Plain) Wait(timeout time.Duration) error {
	if err := l.life.Err(); err != nil || timeout == 0 {
		return err
	}
	l.mu.Lock()
	some := len(l.queue) > 0
	l.mu.Unlock()
	if some || l.next < len(l.taken) {
		return nil
	}
	var after <-chan time.Time
	if timeout > 0 {
		l.timer.Reset(timeout)
		after = l.timer.C
	}
	select {
	case <-l.wake:
	case <-after:
	}
	return l.life.Err()
}

// Wake makes Wait return.
func (l *Plain) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // a wake is pending already
	}
}

// Mark remembers what the link has read.
func (l *Plain) Mark() {
	l.mu.Lock()
	l.mark = l.arrived
	l.mu.Unlock()
}

// CaughtUp reports whether that was handed up.
func (l *Plain) CaughtUp() bool { return l.handed >= l.mark }

// Join fails: the link receives no multicast.
func (l *Plain) Join(netip.Addr, netip.Addr) error {
	return fmt.Errorf("multicast: %w (%w)", link.ErrUnsupported, unix.ErrLinux)
}

// Leave fails like Join.
func (l *Plain) Leave(group, local netip.Addr) error { return l.Join(group, local) }

// Watch calls f with the state at once; the link never learns of a change.
func (l *Plain) Watch(f func(link.PortState)) {
	if f != nil {
		f(link.PortState{Up: true, MTU: l.mtu})
	}
}

// Returned returns nothing: the link does not hear ICMP.
func (l *Plain) Returned() edge.Returned { return edge.Returned{} }

// SourcePort returns the only source port.
func (l *Plain) SourcePort(*edge.Path) uint16 { return l.port }

// Capabilities says what the link can do.
func (l *Plain) Capabilities() link.Capabilities {
	c := link.Capabilities{Name: "udp", Mode: "plain", ICRCBits: 32,
		Alone: "only on Linux several devices share an address"}
	if slices.ContainsFunc(l.addrs, netip.Addr.Is4) {
		c.ICRCBits = 16
	}
	return c
}

// Stats returns the counters.
func (l *Plain) Stats() link.Stats {
	var s link.Stats
	l.stats.Read(&s)
	l.split.Read(&s)
	s.RxCalls = l.calls.Load()
	return s
}

// Close closes the sockets.
func (l *Plain) Close() error {
	if !l.life.Close() {
		return nil
	}
	var errs []error
	for _, s := range l.socks {
		errs = append(errs, s.conn.Close())
	}
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
	l.Wake()
	l.wg.Wait()
	return errors.Join(errs...)
}
