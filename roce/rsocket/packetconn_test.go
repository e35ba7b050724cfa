package rsocket

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// packetSocket makes a socket on a device of its own.
func packetSocket(t testing.TB, dev verbs.Config, cfg PacketConfig) *PacketConn {
	cfg.Device = openDevice(t, dev)
	c, err := cfg.ListenAddr(netip.AddrPort{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func at(c *PacketConn) netip.AddrPort { return c.LocalAddr().(Addr).AddrPort }

// say sends a datagram and waits for it at the other side.
func say(t testing.TB, from, to *PacketConn, text string) {
	n, err := from.WriteToAddrPort([]byte(text), at(to))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	b := make([]byte, 2100)
	n, sender, err := to.ReadFromAddrPort(b)
	require.NoError(t, err)
	require.Equal(t, text, string(b[:n]))
	require.Equal(t, at(from), sender)
}

// acquaint lets two sockets know each other's queue pairs. What a UDP port says is handled when it
// comes: so datagrams are sent until they go by queue pair.
func acquaint(t testing.TB, a, b *PacketConn) {
	for _, p := range [][2]*PacketConn{{a, b}, {b, a}} {
		for asked := uint64(0); ; {
			say(t, p[0], p[1], "hello")
			if s := p[0].Stats(); s.Asked == asked {
				break
			} else {
				asked = s.Asked
			}
		}
	}
}

func TestPacketConn(t *testing.T) {
	kinds := map[string]verbs.Config{"udp": {}, "polling": {Polling: true}, "2 shards": {Shards: 2}}
	for name, cfg := range kinds {
		t.Run(name, func(t *testing.T) {
			exchange(t, packetSocket(t, cfg, PacketConfig{}), packetSocket(t, cfg, PacketConfig{}))
		})
	}
	t.Run("IPv6, one device", func(t *testing.T) {
		d := rocetest.OpenIPv6(t, verbs.Config{})
		a, err := (&PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
		require.NoError(t, err)
		defer a.Close()
		b, err := (&PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
		require.NoError(t, err)
		defer b.Close()
		exchange(t, a, b)
	})
}

func exchange(t *testing.T, a, b *PacketConn) {
	acquaint(t, a, b)
	before := a.Stats().Asked
	for _, n := range []int{0, 1, 100, 2000} {
		say(t, a, b, string(bytes.Repeat([]byte{'x'}, n)))
		say(t, b, a, string(bytes.Repeat([]byte{'y'}, n)))
	}
	require.Equal(t, before, a.Stats().Asked, "by queue pair")
	require.Equal(t, 1, a.Stats().Peers)
	require.Zero(t, a.Stats().Malformed)
}

// A datagram that does not fit a packet goes by UDP.
func TestPacketConnSmallMTU(t *testing.T) {
	a, b := packetSocket(t, verbs.Config{MTU: ib.MTU256}, PacketConfig{}),
		packetSocket(t, verbs.Config{}, PacketConfig{})
	acquaint(t, a, b)
	before := a.Stats().Asked
	say(t, a, b, string(make([]byte, 256-datagramHeader4)))
	require.Equal(t, before, a.Stats().Asked)
	say(t, a, b, string(make([]byte, 256-datagramHeader4+1)))
	require.Equal(t, before+1, a.Stats().Asked)
	say(t, a, b, string(make([]byte, 2032)))
}

func TestPacketConnConnect(t *testing.T) {
	a, b, other := packetSocket(t, verbs.Config{}, PacketConfig{}),
		packetSocket(t, verbs.Config{}, PacketConfig{}), packetSocket(t, verbs.Config{}, PacketConfig{})
	require.Nil(t, a.RemoteAddr())
	_, err := a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EDESTADDRREQ)
	acquaint(t, a, other)
	say(t, b, a, "kept") // a's Connect is after it, and drops nothing of b's
	_, err = other.WriteToAddrPort([]byte("not kept"), at(a))
	require.NoError(t, err)
	require.NoError(t, a.Connect(at(b)))
	require.Equal(t, at(b), a.RemoteAddr().(Addr).AddrPort)
	_, err = other.WriteToAddrPort([]byte("foreign"), at(a)) // by queue pair, where the kernel does not look
	require.NoError(t, err)
	_, err = a.Write([]byte("to b"))
	require.NoError(t, err)
	buf := make([]byte, 10)
	n, from, err := b.ReadFrom(buf)
	require.NoError(t, err)
	require.Equal(t, "to b", string(buf[:n]))
	_, err = b.WriteTo([]byte("from b"), from)
	require.NoError(t, err)
	n, err = a.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "from b", string(buf[:n]))
	rang := make(chan struct{}, 1)
	core.Open(a).Notify(func() {
		select {
		case rang <- struct{}{}:
		default:
		}
	})
	for core.Open(a).ReadyOrNotify(nil); a.Stats().Foreign < 2; core.Open(a).ReadyOrNotify(nil) {
		<-rang // datagrams of two senders come in any order
	}
	require.Equal(t, uint64(2), a.Stats().Foreign)
}

// Nobody at the UDP port is an error of a later call, as with UDP.
func TestPacketConnRefused(t *testing.T) {
	a, b := packetSocket(t, verbs.Config{}, PacketConfig{}), packetSocket(t, verbs.Config{}, PacketConfig{})
	to := at(b)
	require.NoError(t, b.Close())
	require.NoError(t, a.Connect(to))
	_, err := a.Write([]byte("x"))
	require.NoError(t, err)
	_, err = a.Read(make([]byte, 10))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A UDP port that fails again and again ends the socket, and counts nothing as received.
func TestPacketConnServiceFails(t *testing.T) {
	a := packetSocket(t, verbs.Config{}, PacketConfig{})
	require.NoError(t, a.service.udp.SetReadDeadline(time.Now().Add(-1)))
	for range maxFailures {
		_, _, err := a.ReadFrom(make([]byte, 10))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.Zero(t, a.Stats().Malformed)
	select {
	case <-a.served:
	case <-testContext(t).Done():
		t.Fatal("it goes on")
	}
	_, err := a.WriteToAddrPort([]byte("x"), at(a))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestPacketConnDeadlineAndClose(t *testing.T) {
	a := packetSocket(t, verbs.Config{}, PacketConfig{})
	require.NoError(t, a.SetReadDeadline(time.Now().Add(-1)))
	_, _, err := a.ReadFrom(make([]byte, 10))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout())
	require.NoError(t, a.SetDeadline(time.Now().Add(-1)))
	_, err = a.WriteToAddrPort([]byte("late"), at(a))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, a.SetDeadline(time.Time{}))
	for _, closeIt := range []func() error{a.Close, nil} {
		c := a
		if closeIt == nil { // the device ends beneath it
			d := openDevice(t, verbs.Config{})
			c, err = (&PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
			require.NoError(t, err)
			defer c.Close()
			closeIt = d.Close
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := c.ReadFrom(make([]byte, 10))
			require.ErrorIs(t, err, net.ErrClosed)
		})
		require.NoError(t, closeIt())
		wg.Wait()
	}
	_, err = a.WriteToAddrPort([]byte("x"), netip.MustParseAddrPort("127.0.0.1:9"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, a.SetDeadline(time.Time{}), net.ErrClosed)
	require.NoError(t, a.Close())
}

// Without waiting: EAGAIN, and the function of Notify when something comes, by UDP or by the queue
// pair.
func TestPacketConnTry(t *testing.T) {
	a, b := packetSocket(t, verbs.Config{}, PacketConfig{}), packetSocket(t, verbs.Config{}, PacketConfig{})
	rang := make(chan struct{}, 100)
	core.Open(b).Notify(func() {
		select {
		case rang <- struct{}{}:
		default:
		}
	})
	buf := make([]byte, 3)
	next := func() (n, whole int, from netip.AddrPort) {
		for {
			if r := core.Open(b).ReadyOrNotify(nil); r.Readable {
				break
			}
			<-rang
		}
		n, whole, from, err := core.Open(b).TryPeekFrom(buf)
		require.NoError(t, err)
		n2, whole2, from2, err := core.Open(b).TryReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, []any{n, whole, from}, []any{n2, whole2, from2}, "what was seen is what is read")
		return n, whole, from
	}
	_, _, _, err := core.Open(b).TryReadFrom(buf)
	require.Equal(t, syscall.EAGAIN, err)
	require.False(t, core.Open(b).Ready().Readable)
	for range 5 {
		require.True(t, core.Open(a).Ready().Writable)
		require.NoError(t, core.Open(a).TryWriteTo([]byte("hello"), at(b)))
		n, whole, from := next()
		require.Equal(t, 3, n)
		require.Equal(t, 5, whole)
		require.Equal(t, at(a), from)
	}
	core.Open(b).Notify(nil)
}

// A writer that is faster than its device finds the queue full, and goes on when there is room.
func TestPacketConnFull(t *testing.T) {
	cfg := PacketConfig{SendQueue: 4, RecvQueue: 4}
	a, b := packetSocket(t, verbs.Config{}, cfg), packetSocket(t, verbs.Config{}, cfg)
	acquaint(t, a, b)
	for range 200 {
		_, err := a.WriteToAddrPort([]byte("x"), at(b)) // most of them are lost: nobody reads
		require.NoError(t, err)
	}
	_, _, err := b.ReadFrom(make([]byte, 1))
	require.NoError(t, err)
}

// The UDP port takes what is of the protocol, from any sender, and within bounds.
func TestPacketConnHostile(t *testing.T) {
	d := openDevice(t, verbs.Config{})
	cfg := PacketConfig{Device: d, RecvQueue: 4}
	c, err := cfg.ListenAddr(netip.AddrPort{})
	require.NoError(t, err)
	defer c.Close()
	c.mu.Lock()
	c.peers.most = 8
	c.mu.Unlock()
	host := at(c).Addr()
	message := func(o op, n int) []byte {
		return (&serviceMessage{o, 0x77, host, make([]byte, n)}).append(nil)
	}
	send := func(b []byte, ports ...uint16) {
		for _, p := range ports {
			c.mu.Lock()
			c.served1(b, netip.AddrPortFrom(host, p), host)
			c.mu.Unlock()
		}
	}
	send(message(opCtrl, 0), 1000)
	require.Equal(t, 0, c.Stats().Peers, "an answer that nobody has asked for")
	send([]byte("GET / HTTP/1.0"), 1000)
	send(make([]byte, slotBytes+1), 1000)
	send(message(opData, 2033), 1000)
	send(message(opData, 1), 0)
	require.Equal(t, PacketStats{Malformed: 5}, c.Stats())
	c.mu.Lock()
	c.served1(message(opData, 1), netip.AddrPortFrom(host, 1), netip.MustParseAddr("192.0.2.1"))
	c.mu.Unlock()
	require.Equal(t, uint64(6), c.Stats().Malformed, "where no device of ours is")
	for p := range uint16(100) {
		send(message(opData, 10), 2000+p)
	}
	s := c.Stats()
	require.Equal(t, PacketStats{Received: 4, Overflow: 96, Peers: 8, Malformed: 6}, s)
	for range 4 {
		_, _, _, err := core.Open(c).TryReadFrom(make([]byte, 10))
		require.NoError(t, err)
	}
	_, _, _, err = core.Open(c).TryReadFrom(nil)
	require.Equal(t, syscall.EAGAIN, err)
	send(message(opData, 10), 5000)
	require.Equal(t, uint64(5), c.Stats().Received, "there is room again")
}

// A queue pair takes no datagram whose header names another host than the one that has sent it, nor
// one without a header.
func TestPacketConnForged(t *testing.T) {
	a, b := packetSocket(t, verbs.Config{}, PacketConfig{}), packetSocket(t, verbs.Config{}, PacketConfig{})
	acquaint(t, a, b)
	a.mu.Lock()
	p := a.peers.find(at(b))
	q := p.queue
	own := q.addr
	q.addr = netip.MustParseAddrPort("192.0.2.9:7")
	require.NoError(t, q.send(p, []byte("forged")))
	q.addr = own
	a.mu.Unlock()
	say(t, a, b, "real")
	require.Equal(t, uint64(1), b.Stats().Malformed)
}

func TestPacketConnArguments(t *testing.T) {
	var none *PacketConn
	for _, c := range []*PacketConn{none, {}} {
		_, _, err := c.ReadFrom(nil)
		require.ErrorIs(t, err, syscall.EINVAL)
		_, err = c.WriteTo(nil, nil)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Connect(netip.AddrPort{}), syscall.EINVAL)
		require.ErrorIs(t, c.SetDeadline(time.Time{}), syscall.EINVAL)
		require.True(t, core.Open(c).Ready().Over)
		require.Nil(t, c.LocalAddr())
		require.Nil(t, c.RemoteAddr())
		require.Zero(t, c.Stats())
		core.Open(c).Notify(func() {})
	}
	d := openDevice(t, verbs.Config{})
	for _, bad := range []PacketConfig{{SendQueue: -1}, {RecvQueue: maxPackets + 1}} {
		bad.Device = d
		_, err := bad.ListenAddr(netip.AddrPort{})
		require.ErrorIs(t, err, roce.ErrInvalidAttr)
	}
	_, err := (&PacketConfig{Device: d}).ListenAddr(netip.MustParseAddrPort("192.0.2.1:0"))
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	_, err = (&PacketConfig{Device: simNetwork(t, sim.Config{Seed: 1}).a}).ListenAddr(netip.AddrPort{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	c, err := (&PacketConfig{Device: d}).ListenAddr(netip.AddrPort{})
	require.NoError(t, err)
	defer c.Close()
	_, err = (&PacketConfig{Device: d}).ListenAddr(at(c))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	for to, want := range map[string]error{
		"127.0.0.1:0": roce.ErrInvalidAttr, "0.0.0.0:1": roce.ErrInvalidAttr,
		"224.0.0.1:1": syscall.EOPNOTSUPP, "[2001:db8::1]:1": syscall.EAFNOSUPPORT,
	} {
		_, err = c.WriteToAddrPort([]byte("x"), netip.MustParseAddrPort(to))
		require.ErrorIs(t, err, want, to)
	}
	_, err = c.WriteTo([]byte("x"), &net.TCPAddr{})
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = c.WriteToAddrPort(make([]byte, 2033), at(c))
	require.ErrorIs(t, err, syscall.EMSGSIZE)
	say(t, c, c, "to itself")
}

// A socket at all addresses speaks from the one that it was spoken to at.
func TestPacketConnAnyAddress(t *testing.T) {
	devices := map[netip.Addr]*verbs.Device{}
	for range 2 {
		d := openDevice(t, verbs.Config{})
		devices[d.Addrs()[0]] = d
	}
	cfg := PacketConfig{DeviceFor: func(local, peer netip.Addr) (*verbs.Device, error) {
		if d := devices[local]; d != nil {
			return d, nil
		}
		return nil, roce.ErrAddrNotLocal
	}}
	for any, both := range map[string]bool{"0.0.0.0": false, "::": true} {
		cfg.DualStack = both
		server, err := cfg.ListenAddr(netip.AddrPortFrom(netip.MustParseAddr(any), 0))
		if both && (errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)) {
			t.Log("this machine has no IPv6")
			continue
		}
		require.NoError(t, err)
		defer server.Close()
		for addr := range devices {
			c := packetSocket(t, verbs.Config{}, PacketConfig{})
			require.NoError(t, c.Connect(netip.AddrPortFrom(addr, at(server).Port())))
			for range 3 { // by UDP and by the queue pair
				_, err = c.Write([]byte("x"))
				require.NoError(t, err)
				b := make([]byte, 10)
				_, from, err := server.ReadFromAddrPort(b)
				require.NoError(t, err)
				require.Equal(t, at(c), from)
				_, err = server.WriteToAddrPort([]byte("y"), from)
				require.NoError(t, err)
				_, err = c.Read(b)
				require.NoError(t, err)
			}
		}
		require.Equal(t, 2, server.Stats().Peers)
	}
}
