package cm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// again sends request n of an address once more.
func (f *flooded) again(from netip.Addr, n uint32) {
	last := f.n
	f.n = n - 1
	f.request(from)
	f.n = last
}

// TestRanks: in a backlog that is full of forged requests, those of proven addresses are served
// first, then those that come again, also if they had found no place.
func TestRanks(t *testing.T) {
	f := newFlooded(t)
	l, err := f.a.Listen(service, f.addr, 10)
	require.NoError(t, err)
	friend, other, third := attacker(1<<20), attacker(2<<20), attacker(3<<20)
	f.request(friend)
	c := f.next()
	require.NoError(t, c.Accept(f.now, Accept{QPN: 77}))
	c.CommEstablished()
	_, ok := f.a.PollEvent()
	require.True(t, ok)

	for i := range uint32(5) {
		f.request(attacker(i))
	}
	f.request(third)
	waits := f.n
	for i := range uint32(100) {
		f.request(attacker(i + 10))
	}
	require.Equal(t, 10, l.queued)
	f.request(other)
	missed := f.n
	require.EqualValues(t, 97, f.a.Stats().DropBacklog)
	f.again(other, missed)
	f.again(third, waits)
	f.request(friend)
	require.Equal(t, 10, l.queued, "they take the place of others")
	for _, want := range []netip.Addr{friend, other, third, attacker(0), attacker(1)} {
		require.Equal(t, want, f.next().Remote())
	}
}

// TestRanksForgotten: what is remembered of addresses and requests is bounded.
func TestRanksForgotten(t *testing.T) {
	r := recent[int]{n: 4}
	require.True(t, r.empty())
	for i := range 9 {
		r.add(i)
	}
	for i := range 9 {
		require.Equal(t, i >= 4, r.has(i), i)
	}
	require.LessOrEqual(t, len(r.new)+len(r.old), 2*r.n)
}

// TestFlood: 10,000 forged REQs a second, each from another address. A peer that has been there
// before is served at once, and one that has not with its second try. Connections that need a queue
// pair are made for a tenth, and what is sent is far less than what came.
func TestFlood(t *testing.T) {
	seeds.Long(t)
	const rate, bytes = 10_000, 288 << 10
	f := newFlooded(t)
	_, err := f.a.Listen(service, f.addr, 0)
	require.NoError(t, err)
	accepted, sent := 0, 0
	up := map[netip.Addr]int{}
	serve := func() {
		f.a.HandleTimeout(f.now)
		for e, ok := f.a.PollEvent(); ok; e, ok = f.a.PollEvent() {
			if e.Type != EventRequest {
				continue
			}
			accepted++
			require.NoError(t, e.Conn.Accept(f.now, Accept{QPN: 77, Bytes: bytes}))
			if a := e.Conn.Remote(); a.As4()[0] == 12 {
				up[a]++
				e.Conn.CommEstablished() // its RTU comes soon
			}
		}
		for _, n := range f.answers() {
			sent += n
		}
	}
	friend, stranger := netip.MustParseAddr("12.0.0.1"), netip.MustParseAddr("12.0.0.2")
	f.request(friend)
	serve()
	require.Equal(t, 1, up[friend])
	came, dials := 0, 0
	first := uint32(0)
	for f.now = 1; f.now < 4e9; f.now += 1e9 / rate {
		f.request(attacker(f.n))
		came++
		serve()
		switch ms := f.now / 1e6; {
		case f.now%50e6 < 1e9/rate: // 20 a second
			f.request(friend)
			dials++
			serve()
			require.Equal(t, 1+dials, up[friend], "after %d ms", ms)
		case first == 0 && ms >= 3000:
			f.request(stranger)
			first = f.n
		case ms == 3500 && up[stranger] == 0:
			f.again(stranger, first)
			serve()
		case ms >= 3800: // room is made each 250 ms
			require.Equal(t, 1, up[stranger])
		}
		require.LessOrEqual(t, f.a.Counts().HalfBytes, DefaultLimits.HalfOpenBytes)
	}
	t.Logf("%d REQs, %d accepted, %d datagrams sent, %+v", came, accepted, sent, f.a.Stats())
	require.Less(t, accepted, came/8)
	require.Less(t, sent, came/6, "a REP and a REJ for each: with all that others get it is more than a fifth")
}
