package verbs

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// As addrconf_addr_eui48 of Linux does, which rdma_rxe takes its node_guid from.
func TestNodeGUIDOfInterface(t *testing.T) {
	mac := net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	want := uint64(0x505400fffe123456)
	require.Equal(t, want, nodeGUID(netip.MustParseAddr("192.0.2.1"), mac))
	require.Equal(t, want, nodeGUID(netip.MustParseAddr("2001:db8::1"), mac))
}

// Without an Ethernet address each address has a GUID of its own.
func TestNodeGUIDOfAddress(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range []string{"127.0.0.1", "127.0.0.2", "10.0.0.1", "::1", "2001:db8::1"} {
		a := netip.MustParseAddr(s)
		g := nodeGUID(a, nil)
		require.Equal(t, g, nodeGUID(a, make(net.HardwareAddr, 6)), "the loopback interface has one of zeros")
		require.EqualValues(t, 2, g>>56&3, "local, and no group")
		require.Empty(t, seen[g])
		seen[g] = s
	}
}

// A device has as many queue pairs as it says: its numbers are those of one slot, and creating one
// tries a few random numbers.
func TestMaxQP(t *testing.T) {
	l, err := sim.New(sim.Config{}).Link(loopback4())
	require.NoError(t, err)
	d := openDevice(t, Config{Link: l})
	require.LessOrEqual(t, 2*d.Attr().MaxQP, 1<<(24-l.Capabilities().Slot.Bits))
}

func TestNodeGUIDIsStable(t *testing.T) {
	a := loopback4()
	guid := func() uint64 {
		d, err := Open(Config{Addrs: []netip.Addr{a}})
		require.NoError(t, err)
		defer d.Close()
		attr := d.Attr()
		require.Equal(t, attr.NodeGUID, attr.SystemImageGUID)
		return attr.NodeGUID
	}
	first := guid()
	require.Equal(t, first, guid())

	// What a simulated address stands for does not depend on the host.
	l, err := sim.New(sim.Config{}).Link(a)
	require.NoError(t, err)
	require.Equal(t, nodeGUID(a, nil), openDevice(t, Config{Link: l}).Attr().NodeGUID)
}
