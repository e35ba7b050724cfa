package probe

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// patience is for answers that come for sure, however busy the machine is.
const patience = 20 * time.Second

// serve runs a server until the test ends.
func serve(t *testing.T, s *Server) {
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel(context.Canceled)
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// Over loopback, with the sockets of the operating system.
func TestLoopback(t *testing.T) {
	for name, addrs := range map[string][2]netip.Addr{
		"IPv4": {toolcheck.Addr(t), toolcheck.Addr(t)}, "IPv6": {netip.IPv6Loopback(), netip.IPv6Loopback()},
	} {
		t.Run(name, func(t *testing.T) {
			raw := openRaw(netip.MustParseAddrPort("127.0.0.1:9"))
			privileged := raw != nil
			if privileged {
				raw.close()
			}
			in := func(f func()) { f() }
			if addrs[1].Is6() {
				// IPv6 has one loopback address, and other tests are there meanwhile.
				in = linktest.NewNamespace(t).Do
			}
			begun := make(chan netip.Addr, 100)
			var s *Server
			var err error
			in(func() { s, err = Listen(netip.AddrPortFrom(addrs[1], 0), func(a netip.Addr) { begun <- a }) })
			if err != nil && addrs[1].Is6() {
				t.Skipf("no IPv6 loopback: %v", err)
			}
			require.NoError(t, err)
			serve(t, s)
			var steps []string
			var r *Result
			in(func() {
				r, err = Run(t.Context(), Config{
					Local: addrs[0], Remote: s.Addr(), LocalMTU: 4200, GoodputTime: 20 * time.Millisecond,
					Patience: patience, Step: func(what string) { steps = append(steps, what) },
				})
			})
			require.NoError(t, err)
			require.Equal(t, addrs[0], <-begun)
			require.Len(t, steps, 8)
			require.True(t, r.Reachable, r.Silence)
			for _, w := range []*Way{&r.Forward, &r.Back} {
				require.Equal(t, Good, w.ICRC)
				require.Equal(t, w.Src, w.SeenSrc)
				require.Equal(t, w.Dst, w.SeenDst)
				require.EqualValues(t, 64, w.TTL)
				require.Equal(t, Mark{Tried: true, ECT: true, CE: true, DSCP: dscp, Sent: dscp}, w.ECN)
				require.Equal(t, 4096, w.MTU)
				require.Equal(t, privileged && addrs[0].Is4(), w.Header)
				require.Zero(t, w.ID)
			}
			require.Empty(t, r.Untried)
			require.True(t, r.Unasked)
			require.Zero(t, r.Burst.Forward.BadICRC+r.Burst.Back.BadICRC)
			require.Positive(t, r.RTT.P50)
			require.Positive(t, r.Goodput.Bits)
		})
	}
}

// Nobody is there: the other machine says so, at once.
func TestRefusedPort(t *testing.T) {
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	at := free.LocalAddr().(*net.UDPAddr).AddrPort()
	require.NoError(t, free.Close())
	r, err := Run(t.Context(),
		Config{Local: toolcheck.Addr(t), Remote: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), LocalMTU: 1500})
	require.NoError(t, err)
	require.False(t, r.Reachable)
	require.Contains(t, r.Silence, "nobody has the port")
}

// The port is taken here: what that hides is said.
func TestPortTakenHere(t *testing.T) {
	local := toolcheck.Addr(t)
	taken, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 4791)))
	require.NoError(t, err)
	defer taken.Close()
	s, err := Listen(netip.AddrPortFrom(toolcheck.Addr(t), 0), nil)
	require.NoError(t, err)
	serve(t, s)
	r, err := Run(t.Context(), Config{Local: local, Remote: s.Addr(), LocalMTU: 1500, Patience: patience})
	require.NoError(t, err)
	require.True(t, r.Reachable)
	require.False(t, r.Unasked)
	require.Contains(t, r.Untried, "UDP port 4791 is in use here")
}

// between runs a probe from A to B.
func between(t *testing.T, n *linktest.Net, mtu int, wait time.Duration) *Result {
	t.Helper()
	var s *Server
	var r *Result
	var err error
	n.B.Do(func() { s, err = Listen(netip.AddrPortFrom(n.B4, 4791), nil) })
	require.NoError(t, err)
	serve(t, s)
	n.A.Do(func() {
		r, err = Run(t.Context(),
			Config{Local: n.A4, Remote: netip.AddrPortFrom(n.B4, 4791), LocalMTU: mtu, Patience: wait})
	})
	require.NoError(t, err)
	require.True(t, r.Reachable, r.Silence)
	return r
}

// A path whose other end takes less than this one: nobody says so, as with a switch.
func TestNarrowerPath(t *testing.T) {
	n := linktest.NewNet(t, 4200)
	n.B.Run("ip", "link", "set", linktest.Device, "mtu", "1500") // veth drops what is longer
	r := between(t, n, 4200, 500*time.Millisecond)               // eight of them have no answer
	require.Equal(t, 1024, r.Forward.MTU)
	require.True(t, r.Forward.Narrower)
	require.False(t, r.Forward.Told)
}

// netem does what it is told to, and the probe finds that.
func TestNetem(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	var out []byte
	var err error
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("no tc (iproute2): the kernel's netem cannot be set up")
	}
	n.A.Do(func() {
		out, err = exec.Command("tc", "qdisc", "add", "dev", linktest.Device, "root", "netem", "limit",
			"100000", "loss", "20%", "delay", "2ms").CombinedOutput()
	})
	if err != nil {
		t.Skipf("this kernel has no netem: %s", strings.TrimSpace(string(out)))
	}
	r := between(t, n, 1500, 0) // many have no answer
	if r.Burst.Uncounted {
		t.Skip("no count came back in time: this machine is too slow for the probe")
	}
	there := r.Burst.Forward
	require.InDelta(t, 0.2, float64(there.Lost-there.Full)/float64(there.Sent), 0.08, "%+v", there)
	require.Zero(t, r.Burst.Back.BadICRC)
	require.GreaterOrEqual(t, r.RTT.Min, int64(2*time.Millisecond))
}
