package rtnl

import (
	"os"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
)

// setMTU changes the MTU of an interface, of which the kernel notifies.
func setMTU(t *testing.T, c *Conn, index, mtu int) {
	t.Helper()
	body := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(body[4:], uint32(index))
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.IFLA_MTU, uint32(mtu))
	attrs, err := ae.Encode()
	require.NoError(t, err)
	_, err = c.do(unix.RTM_NEWLINK, netlink.Acknowledge, append(body, attrs...))
	require.NoError(t, err)
}

// inNamespace opens a Conn and a Monitor in a namespace that is not the test's.
func inNamespace(t *testing.T) (c *Conn, m *Monitor) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Skipf("needs a network namespace of its own, which needs root: %v", err)
	}
	defer ns.Close()
	var errs [2]error
	require.NoError(t, ns.Do(func() {
		c, errs[0] = Dial()
		m, errs[1] = NewMonitor()
	}))
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, m.Close())
	})
	return c, m
}

// waitMTU waits until the monitor has told of the MTU, and returns whether it told of
// lost events before.
func waitMTU(t *testing.T, m *Monitor, mtu int) (lost bool) {
	t.Helper()
	for told := false; !told; {
		require.NoError(t, m.Next(func(e Event) {
			told = told || e.Link != nil && e.Link.MTU == mtu
			lost = lost || e.Lost
		}))
	}
	return lost
}

// Both stay in the namespace in which they were opened, whatever thread uses them.
func TestNamespace(t *testing.T) {
	c, m := inNamespace(t)
	links, err := c.Links()
	require.NoError(t, err)
	require.Len(t, links, 1, "a new namespace has the loopback interface alone")
	setMTU(t, c, links[0].Index, 4321)
	require.False(t, waitMTU(t, m, 4321))
}

// A monitor whose buffer has overflowed says so, and goes on.
func TestMonitorOverrun(t *testing.T) {
	c, m := inNamespace(t)
	require.NoError(t, m.c.SetReadBuffer(1)) // the kernel's least
	links, err := c.Links()
	require.NoError(t, err)
	for i := range 100 {
		setMTU(t, c, links[0].Index, 2000+i)
	}
	lost := false
	for !lost {
		require.NoError(t, m.Next(func(e Event) { lost = lost || e.Lost }))
	}
	// What came before the overrun is still there, and may leave no room for more.
	for mtu := 3000; ; mtu++ {
		setMTU(t, c, links[0].Index, mtu)
		told := false
		require.NoError(t, m.Next(func(e Event) { told = e.Link != nil && e.Link.MTU == mtu }))
		if told {
			break
		}
	}
}

// Close gives the descriptors back.
func TestDescriptors(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	cycle := func() {
		c, err := Dial()
		if err != nil {
			t.Skipf("no rtnetlink: %v", err)
		}
		m, err := NewLinkMonitor()
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, m.Close())
	}
	cycle() // the runtime's poller has opened its own by now
	before := open()
	for range 20 {
		cycle()
	}
	require.Equal(t, before, open())
}
