package packet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

var native = binary.NativeEndian

// Link is the packet link; see the package comment. It is a [link.Slotted].
type Link struct {
	opts Options
	face
	slotted
	local  endpoint.Local
	groups groups

	share endpoint.Share

	tx sender
	rx receiver
}

type (
	face    = endpoint.Face
	slotted = endpoint.Slotted
)

var (
	_ link.Slotted    = (*Link)(nil)
	_ link.Unverified = (*Link)(nil)
)

// Open opens the link. The error is a [*link.OpenError] that says what to do or, for an invalid
// option, a [*edge.ArgError].
func Open(o Options) (*Link, error) { return openSlot(o, false) }

func openSlot(o Options, spare bool) (*Link, error) {
	o.Addrs = slices.Clone(o.Addrs)
	l := &Link{opts: o, share: endpoint.Share{Spare: spare}, tx: sender{fd: -1}}
	l.face, l.slotted = l.local.Face(), l.share.Slotted()
	if err := l.open(); err != nil {
		_ = l.release()
		return nil, err
	}
	return l, nil
}

// Another opens a link at the same addresses; see [link.Slotted].
func (l *Link) Another() (link.Link, error) {
	if err := l.share.More(); err != nil {
		return nil, err
	}
	return openSlot(l.opts, true)
}

func (l *Link) open() (err error) {
	if err := sockio.CheckBuffers(l.opts.SocketBufferBytes, l.opts.RxBuffers); err != nil {
		return err
	}
	if err := sockio.CheckCalls(); err != nil {
		return err
	}
	// First, because its error says what is missing.
	if l.tx.fd, err = openRaw(); err != nil {
		return err
	}
	err = l.local.Open(endpoint.Options{
		Name: "packet", Addrs: l.opts.Addrs, Port: l.opts.Port, VLAN: l.opts.VLAN,
		HopsChanged: l.hopsChanged, Listen: l.listen, Share: l.leaseSlot,
	})
	if err != nil {
		return sockio.Unshared(err, l.share.Alone)
	}
	if err := l.local.Begin(func(int) int { return frame.MaxIPBytes }, l.opts.MTU); err != nil {
		return err
	}
	if err := l.tx.init(l); err != nil {
		return err
	}
	if err := l.rx.init(l); err != nil {
		return err
	}
	l.local.Follow(l.rebind)
	return nil
}

// rebind moves the sockets to the interface that now has the addresses.
func (l *Link) rebind(k rtnl.Link) {
	if l.opts.VLAN == 0 {
		return // the sockets are bound to no interface
	}
	for _, s := range l.rx.socks {
		_ = s.bind(l, k.Index) // if it is gone again, another notification follows
	}
}

// hopsChanged is called when destinations have become reachable or unreachable.
func (l *Link) hopsChanged() {
	if l.tx.unresolved.Changed() {
		l.Wake()
	}
}

// Returned returns a datagram that came back; see [link.Link].
func (l *Link) Returned() edge.Returned { return l.local.Returned() }

// Join starts receiving packets for a multicast group.
func (l *Link) Join(group, local netip.Addr) error { return l.local.Join(group, local) }

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error { return l.local.Leave(group, local) }

// Capabilities says what is on; the buffers are the smallest of all sockets.
func (l *Link) Capabilities() link.Capabilities {
	c := link.Capabilities{
		Name: "packet", ICRCBits: 32, ECN: true,
		GSO: l.tx.GSO.Load(), GRO: true, SendBufferBytes: l.tx.sndbuf,
	}
	c.Mode = "ring"
	l.share.Describe(&c)
	for i, s := range l.rx.socks {
		if s.ring == nil {
			c.Mode = "queue"
		}
		c.GRO = c.GRO && s.vnet
		if i == 0 || s.rcvbuf < c.RecvBufferBytes {
			c.RecvBufferBytes = s.rcvbuf
		}
	}
	c.Room = sockio.Room(c.RecvBufferBytes, c.GRO)
	if c.Mode == "ring" {
		// A single packet takes a slot; a run takes one for all its packets.
		slot := c.Room.Size / ringSlots
		c.Room.PerPacket = max(c.Room.PerPacket, slot)
		c.Room.RunPerPacket = max(c.Room.RunPerPacket, slot/ringRun)
	}
	return c
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	var s link.Stats
	l.tx.Stats.Read(&s)
	l.rx.readStats(&s)
	l.share.Read(&s)
	return s
}

// Wait blocks in ppoll. See [link.Link].
func (l *Link) Wait(timeout time.Duration) error {
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	if l.tx.unresolved.Due() {
		return nil // the sending side has something to do
	}
	fds := l.rx.fds
	fds[fullFD].Fd = -1
	if l.tx.Blocked() {
		fds[fullFD].Fd = int32(l.tx.fd)
	}
	l.local.Waker.Worked(l.rx.split.Work() + l.tx.Stats.Work())
	if err := l.local.Waker.Poll(fds, timeout); err != nil {
		l.local.Fail(err)
		return err
	}
	if l.local.Waker.Stuck() {
		l.checkSockets()
	}
	l.rx.noteAside()
	for i := range fds {
		if fds[i].Revents&unix.POLLERR != 0 {
			// Of a socket whose interface went down. Until the error is read, every poll returns at
			// once.
			_, _ = unix.GetsockoptInt(int(fds[i].Fd), unix.SOL_SOCKET, unix.SO_ERROR)
		}
	}
	return nil
}

// Close closes the sockets.
func (l *Link) Close() error {
	if !l.local.Life.Close() {
		return nil
	}
	return l.release()
}

func (l *Link) release() error {
	errs := []error{l.local.Stop()}
	shut := func(fd int) { errs = append(errs, os.NewSyscallError("close", unix.Close(fd))) }
	if l.tx.fd >= 0 {
		shut(l.tx.fd)
	}
	l.rx.close(shut)
	errs = append(errs, l.local.Close())
	l.share.Close()
	return errors.Join(errs...)
}
