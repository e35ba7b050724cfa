package verbs

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	bpflink "github.com/cilium/ebpf/link"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/stretchr/testify/require"
)

// The interface of an xdp link is removed under a device, or the program taken from it: a call that
// waits, posts or opens something says why by a typed error, and nothing hangs.
func TestXDPDetached(t *testing.T) {
	for _, c := range []struct {
		name             string
		program, polling bool
	}{
		{"interface, event", false, false}, {"interface, polling", false, true},
		{"program, event", true, false}, {"program, polling", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.program != c.polling {
				t.Skip("-short: a device that polls loses its program, one that sleeps its interface")
			}
			n := linktest.NewNet(t, 1500)
			var ends []*end
			for _, side := range []struct {
				ns *linktest.Namespace
				a  netip.Addr
			}{{n.A, n.A4}, {n.B, n.B4}} {
				var l *xdp.Link
				var err error
				side.ns.Do(func() { l, err = xdp.Open(xdp.Options{Addrs: []netip.Addr{side.a}}) })
				require.NoError(t, err)
				ends = append(ends, newEnd(t, openDevice(t, Config{Link: l, Polling: c.polling}), 4096, QPInitAttr{}))
			}
			a, b := ends[0], ends[1]
			connect(t, a, b)
			if !c.polling { // nobody moves b
				write(t, a, b, 100)
			}
			require.True(t, a.d.Port().Active)
			errs := make(chan error)
			go func() {
				var wcs [1]WC
				_, err := a.cq.Wait(context.Background(), wcs[:])
				errs <- err
			}()
			if c.program {
				detachPrograms(t)
				// It is noticed with the next change of the interface.
				n.A.Run("ip", "link", "set", linktest.Device, "txqueuelen", "77")
			} else {
				n.A.Run("ip", "link", "del", linktest.Device)
			}
			check := func(err error) {
				t.Helper()
				var detached *xdp.DetachedError
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorAs(t, err, &detached)
				require.Equal(t, linktest.Device, detached.Interface)
			}
			check(<-errs)
			check(a.qp.PostSend(&SendWR{Opcode: WRSend, SGList: []SGE{a.mr.SGE(0, 10)}}))
			check(a.qp.PostRecv(&RecvWR{SGList: []SGE{a.mr.SGE(0, 10)}}))
			_, err := a.d.AllocPD()
			check(err)
			ev, err := a.d.AsyncEvent(testContext(t))
			if err == nil && ev.Type == EventPortError { // the port may be seen to go first
				ev, err = a.d.AsyncEvent(testContext(t))
			}
			require.NoError(t, err)
			require.Equal(t, EventDeviceFatal, ev.Type)
			require.False(t, a.d.Port().Active)
			require.NoError(t, a.d.Close())
		})
	}
}

// detachPrograms takes the XDP programs of this process from their interfaces, as
// another process with the privilege can. Their links are found by the descriptors.
func detachPrograms(t *testing.T) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := 0
	for _, f := range fds {
		if target, _ := os.Readlink("/proc/self/fd/" + f.Name()); !strings.HasPrefix(target, "anon_inode:bpf") ||
			!strings.Contains(target, "link") {
			continue
		}
		number, err := strconv.Atoi(f.Name())
		require.NoError(t, err)
		number, err = unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		l, err := bpflink.NewFromFD(number)
		require.NoError(t, err)
		require.NoError(t, l.Detach())
		require.NoError(t, l.Close())
		found++
	}
	require.NotZero(t, found)
}
