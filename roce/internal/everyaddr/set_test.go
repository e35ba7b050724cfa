package everyaddr

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// host answers for the kernel.
type host struct {
	links  []rtnl.Link
	addrs  []rtnl.Address
	err    error
	closed bool
}

func (h *host) Links() ([]rtnl.Link, error)        { return h.links, h.err }
func (h *host) Addresses() ([]rtnl.Address, error) { return h.addrs, nil }
func (h *host) Close() error                       { h.closed = true; return nil }

// at gives the host addresses on an interface, which is on or off.
func (h *host) at(index int, on bool, addrs ...netip.Addr) {
	l := rtnl.Link{Index: index, Name: fmt.Sprint("v", index)}
	if on {
		l.Flags = unix.IFF_UP
	}
	h.links = append(slices.DeleteFunc(h.links, func(x rtnl.Link) bool { return x.Index == index }), l)
	h.addrs = slices.DeleteFunc(h.addrs, func(x rtnl.Address) bool { return x.Index == index })
	for _, a := range addrs {
		h.addrs = append(h.addrs, rtnl.Address{Index: index, Addr: a})
	}
}

func (h *host) watcher() watcher { return watcher{conn: h, at: map[netip.Addr]place{}} }

// followed is a Set on a host that a test changes, and what it did.
type followed struct {
	*Set[string]
	*host
	devs  map[netip.Addr]*verbs.Device
	fails map[netip.Addr]error
	did   []string
}

func follow(t *testing.T) *followed {
	f := &followed{host: new(host), devs: map[netip.Addr]*verbs.Device{}, fails: map[netip.Addr]error{}}
	devs := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 8)
	was := DeviceAt
	t.Cleanup(func() { DeviceAt = was })
	DeviceAt = func(a netip.Addr) (*verbs.Device, error) {
		if err := f.fails[a]; err != nil {
			return nil, err
		}
		if d := f.devs[a]; d == nil || access.Shard(d).Closed() {
			f.devs[a], devs = devs[0], devs[1:]
		}
		return f.devs[a], nil
	}
	f.Set = New(Actions[string]{
		Begin: func(_ *verbs.Device, at netip.AddrPort) (string, uint16, error) {
			f.did = append(f.did, "begin "+at.Addr().String())
			return at.Addr().String(), 1, nil
		},
		End:    func(p string) { f.did = append(f.did, "end "+p) },
		Failed: func(a netip.Addr, err error) { f.did = append(f.did, fmt.Sprint("failed ", a, " ", err)) },
	})
	f.watch = f.watcher()
	return f
}

// want checks what the Set has done since, and which parts it has.
func (f *followed) want(t *testing.T, parts []string, did ...string) {
	t.Helper()
	require.Equal(t, did, f.did)
	require.Equal(t, parts, f.Parts())
	f.did = nil
}

var (
	a1, a2, a3 = rocetest.SimAddr(1), rocetest.SimAddr(2), rocetest.SimAddr(3)
	six        = netip.MustParseAddr("fd77::1")
	loopback   = netip.MustParseAddr("127.0.0.1")
)

// The addresses that are gone end, wherever they stand among the others, and nothing else does.
func TestUpdate(t *testing.T) {
	f := follow(t)
	f.at(1, true, a2, a1, a3)
	f.at(2, true, six)
	require.NoError(t, f.begin())
	all := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd77::1"}
	f.want(t, all, "begin 10.0.0.2", "begin 10.0.0.1", "begin 10.0.0.3", "begin fd77::1")
	f.update()
	f.want(t, all)

	f.at(1, true, a2)
	f.update()
	f.want(t, []string{"10.0.0.2", "fd77::1"}, "end 10.0.0.1", "end 10.0.0.3")
	require.True(t, IsGone(access.Shard(f.devs[a1]).ClosedErr()))
	require.ErrorIs(t, access.Shard(f.devs[a3]).ClosedErr(), verbs.ErrAddrNotLocal)
	require.False(t, access.Shard(f.devs[a2]).Closed())

	f.at(1, true, a2, a3)
	f.update()
	f.want(t, []string{"10.0.0.2", "10.0.0.3", "fd77::1"}, "begin 10.0.0.3")

	// One that another listener saw go is begun anew.
	access.EndDevice(f.devs[a2], Gone(a2))
	f.update()
	f.want(t, []string{"10.0.0.2", "10.0.0.3", "fd77::1"}, "end 10.0.0.2", "begin 10.0.0.2")

	// The kernel does not answer: as before.
	f.err = syscall.ENOBUFS
	f.at(1, true)
	f.update()
	f.want(t, []string{"10.0.0.2", "10.0.0.3", "fd77::1"})
}

// An interface that is off has addresses still: those of IPv6 that the kernel took away, too, until
// it is on and something else is known. Those that are gone end nevertheless.
func TestUpdateSwitchedOff(t *testing.T) {
	f := follow(t)
	f.at(1, true, six)
	f.at(2, true, a1, netip.MustParseAddr("fe80::1"))
	f.at(3, true, netip.MustParseAddr("fe80::1"))
	require.NoError(t, f.begin())
	all := []string{"10.0.0.1", "fd77::1", "fe80::1%v2", "fe80::1%v3"}
	f.want(t, all, "begin fd77::1", "begin 10.0.0.1", "begin fe80::1%v2", "begin fe80::1%v3")

	f.at(2, false, a1)
	f.update()
	f.want(t, all)
	f.at(2, true, a1) // the kernel brings the other one back later
	f.update()
	f.want(t, all)
	f.at(2, false, a1)
	f.at(1, true)
	f.update() // what stays comes before what goes
	f.want(t, []string{"10.0.0.1", "fe80::1%v2", "fe80::1%v3"}, "end fd77::1")
	f.at(2, false)
	f.update()
	f.want(t, []string{"fe80::1%v2", "fe80::1%v3"}, "end 10.0.0.1")
}

// An interface that was off is known to have been, however soon it is on again.
func TestNote(t *testing.T) {
	h := new(host)
	w := h.watcher()
	h.at(1, true, a1, six)
	h.at(2, true, netip.MustParseAddr("fd77::2"))
	_, err := w.addrs()
	require.NoError(t, err)
	on, off := rtnl.Link{Index: 1, Flags: unix.IFF_UP}, rtnl.Link{Index: 1}
	require.True(t, w.note(rtnl.Event{Link: &on}))
	require.False(t, w.at[six].off)
	require.True(t, w.note(rtnl.Event{Link: &off, LinkGone: true}))
	require.False(t, w.at[six].off)
	require.True(t, w.note(rtnl.Event{Link: &off}))
	require.Equal(t,
		map[netip.Addr]place{a1: {index: 1}, six: {1, true}, netip.MustParseAddr("fd77::2"): {index: 2}}, w.at)
	require.True(t, w.note(rtnl.Event{Address: new(rtnl.Address)}))
	require.True(t, w.note(rtnl.Event{Lost: true}))
	require.False(t, w.note(rtnl.Event{Neighbour: new(rtnl.Neighbour)}))

	h.at(1, true)
	h.at(2, true)
	require.False(t, w.gone(six), "it comes back")
	require.True(t, w.gone(netip.MustParseAddr("fd77::2")))
	require.True(t, w.gone(a1))
	require.NotContains(t, w.at, a1)
	h.links = nil
	require.True(t, w.gone(six), "with its interface")
	h.err = syscall.ENOBUFS
	require.False(t, w.gone(six), "nobody knows")
}

// Sockets can be bound to these alone.
func TestAddrs(t *testing.T) {
	h := new(host)
	w := h.watcher()
	h.at(1, true, a1)
	h.at(2, false, a2)
	h.at(4, true, netip.MustParseAddr("fe80::1"))
	h.links = append(h.links, rtnl.Link{Index: 5, Flags: unix.IFF_UP}) // without a name
	h.addrs = append(h.addrs,
		rtnl.Address{Index: 3, Addr: a3}, // the interface has come since the interfaces were listed
		rtnl.Address{Index: 1, Addr: six, Flags: unix.IFA_F_TENTATIVE},
		rtnl.Address{Index: 5, Addr: netip.MustParseAddr("fe80::1")},
		rtnl.Address{Index: 5, Addr: netip.MustParseAddr("::ffff:10.0.0.9")},
	)
	got, err := w.addrs()
	require.NoError(t, err)
	var all []string
	for _, a := range got {
		all = append(all, a.String())
	}
	require.Equal(t, []string{"10.0.0.1", "fe80::1%v4", "fe80::1%5", "10.0.0.9"}, all)
	h.err = syscall.ENOBUFS
	_, err = w.addrs()
	require.ErrorIs(t, err, syscall.ENOBUFS)
}

// What fails is returned to Open, and told of later; an address that has gone meanwhile is neither.
func TestAddFails(t *testing.T) {
	no := errors.New("no device")
	f := follow(t)
	f.at(1, true, a1, a2)
	f.fails[a2] = no
	require.ErrorIs(t, f.begin(), no)
	f.want(t, []string{"10.0.0.1"}, "begin 10.0.0.1")
	f.update()
	f.want(t, []string{"10.0.0.1"}, "failed 10.0.0.2 no device")
	require.NoError(t, f.add(a3), "who has gone")
	f.fails[a3] = no
	require.NoError(t, f.add(a3))
	f.watch = watcher{}
	require.ErrorIs(t, f.add(a3), no, "nobody knows what is gone")

	f = follow(t)
	var open *verbs.OpenError
	require.ErrorAs(t, f.begin(), &open)
	require.ErrorIs(t, f.begin(), verbs.ErrAddrNotLocal)
	f.err = syscall.ENOBUFS
	require.ErrorAs(t, f.begin(), &open)
	require.ErrorIs(t, f.begin(), syscall.ENOBUFS)
}

// Without rtnetlink the addresses are those of the beginning.
func TestWithoutKernel(t *testing.T) {
	var w watcher
	got, err := w.addrs()
	require.NoError(t, err)
	require.Contains(t, got, loopback)
	require.False(t, w.gone(a1))
	w.start(func() { t.Error("something has changed") })
	require.NoError(t, w.close())
}

// The place that is given back is told of if it was the only one.
func TestBudget(t *testing.T) {
	var none *Budget = NewBudget(0, nil)
	require.Nil(t, none)
	require.True(t, none.Take())
	none.Give()

	told := 0
	b := NewBudget(2, func() { told++ })
	require.True(t, b.Take())
	b.Give()
	require.Zero(t, told)
	require.True(t, b.Take())
	require.True(t, b.Take())
	require.False(t, b.Take())
	b.Give()
	require.Equal(t, 1, told)
	b.Give()
	require.Equal(t, 1, told)
	require.True(t, b.Take())
}

// The kernel is asked, and listened to until Close.
func TestOpen(t *testing.T) {
	f := follow(t)
	f.watch = watcher{}
	f.do.Serves = func(a netip.Addr) bool { return a == loopback }
	at, err := f.Open(netip.AddrPort{})
	require.NoError(t, err)
	require.Equal(t, netip.MustParseAddrPort("0.0.0.0:1"), at)
	f.want(t, []string{"127.0.0.1"}, "begin 127.0.0.1")
	require.NotNil(t, f.watch.mon)
	require.NotNil(t, f.watch.conn)
	require.Contains(t, f.watch.at, loopback)
	f.Follow()
	require.NoError(t, f.Set.Close())
}

// A port that is not free at all addresses is given up, and another one is tried; not one that was
// asked for, and not for ever.
func TestFindPort(t *testing.T) {
	for _, c := range []struct {
		port        uint16
		inUse, want int // of the tries
	}{{0, 0, 1}, {0, 2, 3}, {0, 99, portTries + 1}, {7, 1, 1}} {
		tries := 0
		err := FindPort(netip.AddrPortFrom(loopback, c.port), func(netip.AddrPort) error {
			if tries++; tries > c.inUse {
				return nil
			}
			return fmt.Errorf("try %d: %w", tries, verbs.ErrAddrInUse)
		})
		require.Equal(t, c.want, tries)
		require.Equal(t, tries <= c.inUse, errors.Is(err, verbs.ErrAddrInUse))
	}
}

// The first address chooses the port of all.
func TestOnePort(t *testing.T) {
	f := follow(t)
	begin := f.do.Begin
	f.do.Begin = func(d *verbs.Device, at netip.AddrPort) (string, uint16, error) {
		if f.did = append(f.did, fmt.Sprint("port ", at.Port())); at.Addr() == a2 {
			return "", 0, verbs.ErrAddrInUse
		}
		return begin(d, at)
	}
	f.at(1, true, a1, a3, a2)
	require.ErrorIs(t, f.begin(), verbs.ErrAddrInUse)
	require.Equal(t, []string{"port 0", "begin 10.0.0.1", "port 1", "begin 10.0.0.3", "port 1"}, f.did)
}
