package rsocket

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// plainSocket makes a socket that also speaks UDP, and a UDP socket of the kernel at another
// address.
func plainSocket(t *testing.T) (*PacketConn, *net.UDPConn) {
	c := packetSocket(t, verbs.Config{}, PacketConfig{})
	core.Open(c).SpeakPlain()
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.Close()) })
	return c, u
}

func udpAddr(u *net.UDPConn) netip.AddrPort { return u.LocalAddr().(*net.UDPAddr).AddrPort() }

func hears(t *testing.T, u *net.UDPConn) string {
	b := make([]byte, 3000)
	n, _, err := u.ReadFromUDPAddrPort(b)
	require.NoError(t, err)
	return string(b[:n])
}

// reads returns the next datagram of a socket.
func reads(t *testing.T, c *PacketConn) (string, netip.AddrPort) {
	b := make([]byte, 3000)
	n, from, err := c.ReadFromAddrPort(b)
	require.NoError(t, err)
	return string(b[:n]), from
}

// A peer that sends without a header is answered so, whatever has been at its port before.
func TestPlainPeerBegins(t *testing.T) {
	c, u := plainSocket(t)
	for _, text := range []string{"first", "", string(make([]byte, slotBytes))} {
		_, err := u.WriteToUDPAddrPort([]byte(text), at(c))
		require.NoError(t, err)
		got, from := reads(t, c)
		require.Equal(t, text, got)
		require.Equal(t, udpAddr(u), from)
		_, err = c.WriteToAddrPort([]byte("to "+text[:min(len(text), 5)]), from)
		require.NoError(t, err)
		require.Equal(t, "to "+text[:min(len(text), 5)], hears(t, u))
	}
	_, err := u.WriteToUDPAddrPort(make([]byte, slotBytes+1), at(c))
	require.NoError(t, err)
	_, err = u.WriteToUDPAddrPort([]byte("last"), at(c))
	require.NoError(t, err)
	got, _ := reads(t, c)
	require.Equal(t, "last", got, "the longer one is dropped")
	require.Equal(t, uint64(1), c.Stats().Malformed)

	// A socket of this protocol comes to the port, and goes.
	m := serviceMessage{op: opData, qpn: 77, addr: udpAddr(u).Addr(), data: []byte("by RDMA")}
	_, err = u.WriteToUDPAddrPort(m.append(nil), at(c))
	require.NoError(t, err)
	got, _ = reads(t, c)
	require.Equal(t, "by RDMA", got)
	require.Len(t, hears(t, u), serviceHeader4, "the queue pair of c")
	c.mu.Lock()
	known := c.peers.find(udpAddr(u)).known()
	c.mu.Unlock()
	require.True(t, known)
	_, err = u.WriteToUDPAddrPort([]byte("plain again"), at(c))
	require.NoError(t, err)
	got, from := reads(t, c)
	require.Equal(t, "plain again", got)
	_, err = c.WriteToAddrPort([]byte("as well"), from)
	require.NoError(t, err)
	require.Equal(t, "as well", hears(t, u))
}

// A peer that answers nonsense to a header gets the datagram without it. Its nonsense goes no
// further.
func TestPlainPeerIsAsked(t *testing.T) {
	c, u := plainSocket(t)
	_, err := c.WriteToAddrPort([]byte("query"), udpAddr(u))
	require.NoError(t, err)
	require.Len(t, hears(t, u), serviceHeader4+5)
	_, err = u.WriteToUDPAddrPort([]byte("nonsense"), at(c))
	require.NoError(t, err)
	require.Equal(t, "query", hears(t, u))
	_, err = u.WriteToUDPAddrPort([]byte("answer"), at(c))
	require.NoError(t, err)
	got, _ := reads(t, c)
	require.Equal(t, "answer", got)
	require.Equal(t, uint64(1), c.Stats().Asked)
}

// A peer that says nothing hears the next try without a header, and is still asked now and then,
// since it may begin later.
func TestPlainPeerIsSilent(t *testing.T) {
	c, u := plainSocket(t)
	asked := 0
	for text := ""; text != "query"; {
		_, err := c.WriteToAddrPort([]byte("query"), udpAddr(u))
		require.NoError(t, err)
		text = hears(t, u)
		asked++
	}
	require.Greater(t, asked, 1)
	for before := c.Stats().Asked; c.Stats().Asked == before; {
		_, err := c.WriteToAddrPort([]byte("query"), udpAddr(u))
		require.NoError(t, err)
		require.Equal(t, "query", hears(t, u))
	}
	require.Len(t, hears(t, u), serviceHeader4+5)
}

// Without SpeakPlain nothing is taken or sent without a header.
func TestPlainIsAsked(t *testing.T) {
	c := packetSocket(t, verbs.Config{}, PacketConfig{})
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer u.Close()
	_, err = u.WriteToUDPAddrPort([]byte("plain"), at(c))
	require.NoError(t, err)
	m := serviceMessage{op: opData, qpn: 77, addr: udpAddr(u).Addr(), data: []byte("by RDMA")}
	_, err = u.WriteToUDPAddrPort(m.append(nil), at(c))
	require.NoError(t, err)
	got, _ := reads(t, c)
	require.Equal(t, "by RDMA", got)
	require.Equal(t, uint64(1), c.Stats().Malformed)
}
