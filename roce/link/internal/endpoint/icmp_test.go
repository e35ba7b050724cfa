package endpoint

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// quoted4 is "fragmentation needed" for a datagram of so many bytes; options are bytes of
// its IP header.
func quoted4(mtu uint16, bytes, options int, port uint16) []byte {
	b := make([]byte, icmpHeadBytes+ip4HeadBytes+options+udpHeadBytes)
	b[0], b[1] = icmpUnreachable, icmpFragNeeded
	binary.BigEndian.PutUint16(b[6:], mtu)
	ip := b[icmpHeadBytes:]
	ip[0], ip[9] = 0x40|byte((ip4HeadBytes+options)/4), 17
	binary.BigEndian.PutUint16(ip[2:], uint16(bytes))
	copy(ip[12:], []byte{10, 0, 0, 1})
	copy(ip[16:], []byte{10, 0, 0, 2})
	binary.BigEndian.PutUint16(ip[ip4HeadBytes+options+2:], port)
	return b
}

func quoted6(mtu uint32, bytes int, port uint16) []byte {
	b := make([]byte, icmpHeadBytes+ip6HeadBytes+udpHeadBytes)
	b[0] = icmpTooBig
	binary.BigEndian.PutUint32(b[4:], mtu)
	ip := b[icmpHeadBytes:]
	ip[0], ip[6] = 0x60, 17
	binary.BigEndian.PutUint16(ip[4:], uint16(bytes-ip6HeadBytes))
	from, to := netip.MustParseAddr("fd00::1").As16(), netip.MustParseAddr("fd00::2").As16()
	copy(ip[8:], from[:])
	copy(ip[24:], to[:])
	binary.BigEndian.PutUint16(ip[ip6HeadBytes+2:], port)
	return b
}

// What a router says is believed about packets of ours that are longer than it says, and not below
// what any network carries. No part of a message is one.
func TestReadICMP(t *testing.T) {
	const port = 4791
	type reader func([]byte, uint16) (netip.Addr, netip.Addr, int, bool)
	four, six := reader(readICMP4), reader(readICMP6)
	spoilt := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	for name, c := range map[string]struct {
		read reader
		b    []byte
		mtu  int // 0: not believed
	}{
		"IPv4":                  {four, quoted4(1500, 4200, 0, port), 1500},
		"IPv4 with options":     {four, quoted4(1400, 1500, 12, port), 1400},
		"a router that says 0":  {four, quoted4(0, 1500, 0, port), leastMTU4},
		"IPv4, too small":       {four, quoted4(68, 1500, 0, port), leastMTU4},
		"it would have fitted":  {four, quoted4(1500, 1500, 0, port), 0},
		"another port":          {four, quoted4(1500, 4200, 0, 53), 0},
		"another code":          {four, spoilt(quoted4(1500, 4200, 0, port), 1, 3), 0},
		"another type":          {four, spoilt(quoted4(1500, 4200, 0, port), 0, 11), 0},
		"not UDP":               {four, spoilt(quoted4(1500, 4200, 0, port), icmpHeadBytes+9, 6), 0},
		"not IPv4":              {four, spoilt(quoted4(1500, 4200, 0, port), icmpHeadBytes, 0x65), 0},
		"a short header":        {four, spoilt(quoted4(1500, 4200, 0, port), icmpHeadBytes, 0x44), 0},
		"IPv6":                  {six, quoted6(1500, 4200, port), 1500},
		"IPv6, too small":       {six, quoted6(68, 1500, port), leastMTU6},
		"IPv6, huge":            {six, quoted6(1<<31, 4200, port), 0},
		"IPv6, would fit":       {six, quoted6(1500, 1500, port), 0},
		"IPv6, another port":    {six, quoted6(1500, 4200, 53), 0},
		"IPv6, another type":    {six, spoilt(quoted6(1500, 4200, port), 0, 1), 0},
		"IPv6, not UDP":         {six, spoilt(quoted6(1500, 4200, port), icmpHeadBytes+6, 44), 0},
		"IPv6, another version": {six, spoilt(quoted6(1500, 4200, port), icmpHeadBytes, 0x45), 0},
	} {
		from, to, mtu, ok := c.read(c.b, port)
		require.Equal(t, c.mtu != 0, ok, name)
		if !ok {
			continue
		}
		require.Equal(t, c.mtu, mtu, name)
		require.Equal(t, from.Next(), to, name)
		for n := range c.b {
			_, _, _, ok := c.read(c.b[:n], port)
			require.False(t, ok, "%s, %d bytes of it", name, n)
		}
	}
}

func FuzzReadICMP(f *testing.F) {
	f.Add(quoted4(1500, 4200, 0, 4791))
	f.Add(quoted6(1500, 4200, 4791))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, mtu, ok := readICMP4(b, 4791); ok && mtu < leastMTU4 {
			t.Error(mtu)
		}
		if _, _, mtu, ok := readICMP6(b, 4791); ok && mtu < leastMTU6 {
			t.Error(mtu)
		}
	})
}

// A host says that nobody has the port, or the network that there is no way to the host, and quotes
// a datagram to queue pair 1. No other message does, and no part of one that does not hold a BTH.
func TestSentBack(t *testing.T) {
	const port = 4791
	bth := make([]byte, 64)
	bth[7] = 1
	four := append(quoted4(0, 300, 0, port), bth...)
	four[1] = icmpNoPort
	options := append(quoted4(0, 300, 12, port), bth...)
	options[1] = icmpNoPort
	six := append(quoted6(0, 300, port), bth...)
	six[0], six[1] = icmp6NoDest, icmp6NoPort
	spoilt := func(b []byte, at int, v byte) []byte { b = append([]byte(nil), b...); b[at] = v; return b }
	for name, c := range map[string]struct {
		b      []byte
		six    bool
		want   bool
		noHost bool
	}{
		"IPv4": {b: four, want: true}, "IPv4 with options": {b: options, want: true}, "IPv6": {b: six,
			six: true, want: true},
		"no host": {b: spoilt(four, 1, 1), want: true, noHost: true}, "prohibited": {b: spoilt(four, 1, 13),
			want: true, noHost: true},
		"IPv6, no host":  {b: spoilt(six, 1, 3), six: true, want: true, noHost: true},
		"another family": {b: four, six: true}, "too long": {b: spoilt(four, 1, icmpFragNeeded)},
		"no protocol": {b: spoilt(four, 1, 2)}, "no source route": {b: spoilt(four, 1, 5)},
		"IPv6, too long":      {b: spoilt(six, 0, icmpTooBig), six: true},
		"IPv6, another scope": {b: spoilt(six, 1, 2), six: true}, "another port": {b: spoilt(four, 31, 9)},
		"another queue pair": {b: spoilt(four, len(four)-57, 9)},
		"not UDP":            {b: spoilt(four, icmpHeadBytes+9, 6)},
		"IPv6, not UDP":      {b: spoilt(six, icmpHeadBytes+6, 6), six: true},
	} {
		from, back, ok := sentBack(c.b, c.six, port)
		require.Equal(t, c.want, ok, name)
		if !ok {
			continue
		}
		require.Equal(t, from.Next(), back.From, name)
		require.Equal(t, bth, back.Quote, name)
		require.Equal(t, c.noHost, back.NoHost, name)
		for n := range len(c.b) - len(bth) + 12 {
			_, _, ok := sentBack(c.b[:n], c.six, port)
			require.False(t, ok, "%s: %d bytes", name, n)
		}
	}
}

// All other messages stay in the kernel: a bit that is set filters out a type.
func TestHearOnly(t *testing.T) {
	for _, six := range []bool{false, true} {
		network, at, level, name, want := "ip4:1", "127.0.0.1", unix.SOL_RAW, filterICMP, ^uint32(1<<icmpUnreachable)
		if six {
			network, at, level, name, want = "ip6:58", "::1", unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER,
				^uint32(1<<icmp6NoDest|1<<icmpTooBig)
		}
		c, err := net.ListenIP(network, &net.IPAddr{IP: net.ParseIP(at)})
		if err != nil {
			t.Skip("raw sockets need CAP_NET_RAW, and one of them IPv6:", err)
		}
		defer c.Close()
		require.NoError(t, hearOnly(c, six))
		raw, err := c.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			first, err := unix.GetsockoptInt(int(fd), level, name) // types 0 to 31
			require.NoError(t, err)
			require.Equal(t, want, uint32(first))
		}))
	}
}

// ear says what a socket would.
type ear func(b []byte) (int, error)

func (f ear) Read(b []byte) (int, error) { return f(b) }

// A socket that fails now and then is heard on, and one that does nothing else, or is closed, is
// not.
func TestHear(t *testing.T) {
	l, _ := opened(t, here)
	raw := append(quoted4(0, 300, 0, l.Port()), make([]byte, 12)...)
	raw[1], raw[len(raw)-5] = icmpNoPort, 1
	copy(raw[icmpHeadBytes+12:], here.AsSlice())
	raw = append(append([]byte{0x45}, make([]byte, ip4HeadBytes-1)...), raw...)
	reads := 0
	l.hear(ear(func(b []byte) (int, error) {
		if reads++; reads%maxDeaf == 0 && reads < 4*maxDeaf {
			return copy(b, raw), nil
		}
		return 0, errors.New("not now")
	}), here)
	require.Equal(t, 4*maxDeaf, reads)
	for range 3 {
		back := l.Returned()
		require.Equal(t, netip.AddrFrom4([4]byte{10, 0, 0, 2}), back.From)
		require.Equal(t, raw[len(raw)-12:], back.Quote)
	}
	require.Nil(t, l.Returned().Quote)
	l.hear(ear(func([]byte) (int, error) { return 0, net.ErrClosed }), here)
}

// Datagrams that come back wait in order, as many as there is room for.
func TestReturned(t *testing.T) {
	l, _ := opened(t, here)
	for range 2 {
		for i := range maxReturned + 10 {
			l.sendBack(edge.Returned{From: there, Quote: []byte{byte(i), byte(i >> 8)}})
		}
		for i := range maxReturned {
			back := l.Returned()
			require.Equal(t, there, back.From)
			require.Equal(t, []byte{byte(i), byte(i >> 8)}, back.Quote)
		}
		require.True(t, l.back.there.Load())
		back := l.Returned()
		require.Nil(t, back.Quote)
		require.False(t, l.back.there.Load())
	}
}
