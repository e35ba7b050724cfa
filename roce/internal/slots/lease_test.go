//go:build linux

package slots

import (
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Devices at an address have a slot each, and get what is for it, whichever of them dies: by
// kill -9, the first one, too, which has made the sockets.
func TestKill(t *testing.T) {
	a := address()
	first := start(t, a, 0)
	require.Equal(t, "0", first.say("open"))
	l := lease(t, a)
	require.Equal(t, 1, l.slot)
	second := start(t, a, 0)
	require.Equal(t, "2", second.say("open"))
	mine := func() {
		t.Helper()
		require.NoError(t, l.Hear(0))
		b := packet(l.Slot().QPN(77))
		send(t, a, b)
		send(t, a, packet(ib.Slot{Index: 0, Bits: Bits}.QPN(77)))
		send(t, a, packet(ib.Slot{Index: 2, Bits: Bits}.QPN(77)))
		require.Equal(t, [][]byte{b}, arrived(t, l.Socket(0)))
	}
	mine()
	first.kill()
	mine()
	second.kill()
	mine()
	third := start(t, a, 0)
	require.Equal(t, "3", third.say("open"), "the slots of the dead rest")
	mine()
}

// A slot rests when its device has gone, and then it can be had, without what came for
// the device before.
func TestRest(t *testing.T) {
	a := address()
	keeps := lease(t, a)
	require.Equal(t, 0, keeps.slot)
	now := bootTime()
	clock := func() int64 { return now }
	for _, dies := range []bool{false, true} {
		p := start(t, a, 0)
		require.Equal(t, "1", p.say("open"))
		if dies {
			p.kill()
		} else {
			require.Equal(t, "ok", p.say("close"))
		}
		now = bootTime()
		l, err := open([]Address{a}, clock)
		require.NoError(t, err)
		require.Equal(t, 2, l.slot, "1 rests")
		l.Close()
		w, err := keeps.sets[0].word(1)
		require.NoError(t, err)
		now = int64(w) + restNs - 1
		w2, err := keeps.sets[0].word(2)
		require.NoError(t, err)
		require.NoError(t, keeps.sets[0].setWord(2, wordFresh))
		require.Greater(t, w2, wordLeased)
		l, err = open([]Address{a}, clock)
		require.NoError(t, err)
		require.Equal(t, 2, l.slot, "1 rests still")
		l.Close()
		require.NoError(t, keeps.sets[0].setWord(2, wordFresh))

		// Something is there for the one before.
		require.NoError(t, hear(keeps.sets[0].udp(1)))
		send(t, a, packet(ib.Slot{Index: 1, Bits: Bits}.QPN(5)))
		_, in := keeps.sets[0].inbox(1)
		require.NoError(t, unix.Send(in, []byte("old"), 0))
		now++
		l, err = open([]Address{a}, clock)
		require.NoError(t, err)
		require.Equal(t, 1, l.slot)
		require.NoError(t, l.Hear(0))
		require.Empty(t, received(t, l.Socket(0)))
		require.Empty(t, received(t, l.Inbox(0)))
		l.Close()
		require.NoError(t, keeps.sets[0].setWord(1, wordFresh))
	}
}

// Of what comes for a slot that nobody has, hardly anything is kept, and nothing of that for
// a later device.
func TestUnleasedDrops(t *testing.T) {
	a := address()
	l := lease(t, a)
	for k := range Count {
		for range 20 {
			send(t, a, packet(ib.Slot{Index: uint8(k), Bits: Bits}.QPN(5)))
		}
	}
	m := lease(t, a)
	require.Equal(t, 1, m.slot)
	require.NoError(t, m.Hear(0))
	require.Empty(t, received(t, m.Socket(0)))
	for k := 2; k < Count; k++ {
		require.LessOrEqual(t, len(received(t, l.sets[0].udp(k))), 4, "%d", k)
	}
}

// A device with several addresses has the same slot at all of them, and devices that
// share only some of them get along, in any order and at once.
func TestSeveralAddresses(t *testing.T) {
	needsFilesFor(t, 50) // devices at one address
	a, b, c := address(), address(), address()
	ab := lease(t, a, b)
	require.Equal(t, 0, ab.slot)
	require.Equal(t, 1, lease(t, b, c).slot)
	require.Equal(t, 2, lease(t, c, a).slot, "0 is taken at a, 1 at c")
	require.Equal(t, 0, lease(t, address()).slot)
	require.Equal(t, 3, lease(t, b, a, c).slot)

	d, e := address(), address()
	var wg sync.WaitGroup
	got := make([]*Lease, 20)
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			order := []Address{d, e}
			if i%2 == 1 {
				order = []Address{e, d}
			}
			var err error
			got[i], err = Open(order)
			assert.NoError(t, err)
		}()
	}
	wg.Wait()
	seen := map[int]bool{}
	for _, l := range got {
		require.NotNil(t, l)
		defer l.Close()
		require.False(t, seen[l.slot], "slot %d twice", l.slot)
		seen[l.slot] = true
	}
}

// Devices that come and go faster than slots rest wait for one.
func TestWaitsForRest(t *testing.T) {
	a := []Address{address()}
	slept := time.Duration(0)
	start := bootTime()
	clock := func() int64 { return start + int64(slept) } // on a busy machine slots would rest while others are opened
	sleep := func(d time.Duration) { slept += d }
	keep, err := openPatiently(a, clock, sleep) // or the slots would be gone with the last device
	require.NoError(t, err)
	defer keep.Close()
	for range 2 * Count {
		l, err := openPatiently(a, clock, sleep)
		require.NoError(t, err)
		l.Close()
	}
	require.NotZero(t, slept)
	require.LessOrEqual(t, slept, 4*time.Duration(restNs))
}

// The number of slots is a limit, with an error that says so.
func TestFull(t *testing.T) {
	needsFilesFor(t, Count)
	a := address()
	for k := range Count {
		require.Equal(t, k, lease(t, a).slot)
	}
	_, err := Open([]Address{a})
	require.ErrorIs(t, err, ErrFull)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.ErrorContains(t, err, "64 devices")
	var says interface{ Hint() string }
	require.ErrorAs(t, err, &says)
	require.Contains(t, says.Hint(), "another address")
}

// With the last device everything is gone: the port can be had by anyone, and
// no descriptor is left.
func TestLastCloses(t *testing.T) {
	a := address()
	lease(t, address()).Close() // what the runtime opens once
	before := descriptors(t)
	l, m := lease(t, a), lease(t, a)
	p := start(t, a, 0)
	require.Equal(t, "2", p.say("open"))
	l.Close()
	l.Close()
	m.Close()
	require.ErrorIs(t, bindAlone(a), unix.EADDRINUSE)
	p.kill()
	require.NoError(t, bindAlone(a))
	require.LessOrEqual(t, descriptors(t), before)
	require.Equal(t, 0, lease(t, a).slot, "a new beginning")
}

func bindAlone(a Address) error {
	fd, err := unix.Socket(a.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, a.sockaddr())
}

// A program that has the port for itself is an error like any other, and leaves nothing behind.
func TestPortTaken(t *testing.T) {
	a := address()
	fd, err := unix.Socket(a.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, shared(fd))
	require.NoError(t, unix.Bind(fd, a.sockaddr()))
	_, err = Open([]Address{a})
	require.ErrorIs(t, err, unix.EADDRINUSE, "though both would share it")
	require.NotErrorIs(t, err, ErrUnsupported)
	unix.Close(fd)
	lease(t, a)
}

// Many processes begin and end at once.
func TestCrowd(t *testing.T) {
	a := address()
	ps := make([]*process, 8)
	for i := range ps {
		ps[i] = start(t, a, 0)
	}
	for round := range 3 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		seen := map[string]bool{}
		for _, p := range ps {
			wg.Add(1)
			go func() {
				defer wg.Done()
				s := p.say("open")
				mu.Lock()
				defer mu.Unlock()
				if k, err := strconv.Atoi(s); err != nil || seen[s] {
					t.Errorf("round %d: %q (slot %d), after %v", round, s, k, seen)
				}
				seen[s] = true
			}()
		}
		wg.Wait()
		for _, p := range ps {
			wg.Add(1)
			go func() {
				defer wg.Done()
				p.say("close")
			}()
		}
		wg.Wait()
	}
}

// A service belongs to one device at an address, until that withdraws it or dies; all
// others find it.
func TestServices(t *testing.T) {
	a := address()
	const s = mad.ServiceID(0x01061234)
	big := mad.ServiceID(1<<64 - 1)
	l, m := lease(t, a), lease(t, a)
	p := start(t, a, 0)
	require.Equal(t, "2", p.say("open"))
	owner := func(l *Lease, s mad.ServiceID, want int) {
		t.Helper()
		k, ok := l.Owner(0, s)
		require.Equal(t, want >= 0, ok)
		require.Equal(t, max(want, 0), k)
	}
	owner(l, s, -1)
	require.NoError(t, l.Announce(0, s))
	require.NoError(t, l.Announce(0, s))
	require.NoError(t, m.Announce(0, s+1))
	require.NoError(t, m.Announce(0, big))
	require.ErrorIs(t, m.Announce(0, s), ErrInUse)
	require.Contains(t, p.say("announce %d", s), ErrInUse.Error())
	owner(l, s, 0)
	owner(m, s, 0)
	owner(l, s+1, 1)
	owner(l, big, 1)
	l.Withdraw(0, s)
	owner(m, s, 0)
	l.Withdraw(0, s)
	l.Withdraw(0, s)
	owner(m, s, -1)
	require.Equal(t, "ok", p.say("announce %d", s))
	owner(l, s, 2)
	require.True(t, l.Held(0, 0) && l.Held(0, 1) && l.Held(0, 2))
	require.False(t, l.Held(0, 3))
	p.kill()
	owner(l, s, -1)
	require.NoError(t, m.Announce(0, s))
	m.Close()
	owner(l, s, -1)
	require.False(t, l.Held(0, 1))
	require.Error(t, m.Announce(0, s))
}

// An IPv6 address, and a link-local one of an interface, work as others.
func TestIPv6(t *testing.T) {
	a := Address{Addr: netip.IPv6Loopback(), Port: address().Port}
	if err := bindAlone(a); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	l, m := lease(t, a), lease(t, a)
	for i, x := range []*Lease{l, m} {
		require.Equal(t, i, x.slot)
		require.NoError(t, x.Hear(0))
		b := packet(x.Slot().QPN(9))
		send(t, a, b)
		require.Equal(t, [][]byte{b}, arrived(t, x.Socket(0)))
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, others := range []int{0, 1} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			a := address()
			for range others {
				lease(b, a)
			}
			var now int64
			for b.Loop() {
				now += 2 * restNs
				l, err := open([]Address{a}, func() int64 { return bootTime() + now })
				if err != nil {
					b.Fatal(err)
				}
				l.Close()
			}
		})
	}
}

// Requests are kept while a device serves, and not for one that comes much later.
func TestRequestsWithoutServer(t *testing.T) {
	a := address()
	keeps, first, second := lease(t, a), lease(t, a), lease(t, a)
	req := messages(0)[mad.AttrREQ]
	socket := keeps.RequestSocket(0)
	require.NoError(t, first.HearRequests(0))
	require.NoError(t, second.HearRequests(0))
	require.True(t, first.Refuses(0))
	require.False(t, second.Refuses(0))
	first.Close()
	require.True(t, second.Refuses(0))
	send(t, a, req)
	require.Len(t, arrived(t, socket), 1, "the second serves")
	send(t, a, req)
	second.Close()
	send(t, a, req)
	require.Empty(t, received(t, socket))
	third := lease(t, a)
	require.NoError(t, third.HearRequests(0))
	send(t, a, req)
	require.Len(t, arrived(t, socket), 1)
}

// What a device has in addition comes from the second half, at once or not at all, and leaves the
// first half to devices that have none.
func TestSpare(t *testing.T) {
	needsFilesFor(t, Count-FirstSpare)
	a := []Address{address()}
	for k := FirstSpare; k < Count; k++ {
		l, err := OpenSpare(a)
		require.NoError(t, err)
		defer l.Close()
		require.Equal(t, k, l.slot)
	}
	_, err := OpenSpare(a)
	require.ErrorIs(t, err, ErrFull)
	l, err := Open(a)
	require.NoError(t, err)
	defer l.Close()
	require.Zero(t, l.slot)
}
