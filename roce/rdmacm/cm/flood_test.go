package cm

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// flood is how many of n requests of a flood there are: all, in the long run of the tests.
func flood(n int) int {
	if testing.Short() {
		return n / 12
	}
	return seeds.Fewer(n)
}

// flooded is an agent that nobody but attackers talks to.
type flooded struct {
	t    *testing.T
	a    *Agent
	addr netip.Addr
	now  int64
	n    uint32
}

func newFlooded(t *testing.T) *flooded {
	f := &flooded{t: t, addr: netip.MustParseAddr("10.0.0.1")}
	var err error
	f.a, err = New(Config{GUID: 1, Addrs: []netip.Addr{f.addr}, Rand: rand.NewChaCha8([32]byte{7})})
	require.NoError(t, err)
	return f
}

// attacker is the n-th of 2^24 addresses.
func attacker(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 11<<24|n&0xFFFFFF)
	return netip.AddrFrom4(b)
}

// request is a good REQ from somebody who will never answer. The ACK timeout is
// what keeps its record in TIMEWAIT the longest.
func (f *flooded) request(from netip.Addr) {
	f.n++
	h := mad.CMHeader(mad.AttrREQ, mad.TID(f.n))
	m := mad.REQ{
		LocalCommID: mad.CommID(f.n), ServiceID: service, CAGUID: mad.GUID(f.n),
		QPN: ib.QPN(f.n&0xFFFF | 0x10000), MTU: ib.MTU1024, PKey: ib.PKeyDefault, Private: make([]byte,
			mad.REQPrivateBytes),
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(from), RemoteGID: ib.GIDFromAddr(f.addr), AckTimeout: 31},
	}
	cma := mad.CMAHeader{SrcPort: 4660, Src: from, Dst: f.addr}
	require.NoError(f.t, cma.Put(m.Private))
	var b [mad.Bytes]byte
	require.NoError(f.t, m.Put(h.Put(&b)))
	f.a.HandleMAD(f.now, from, f.addr, b[:])
}

// lookup is a SIDR_REQ.
func (f *flooded) lookup(from netip.Addr) {
	f.n++
	h := mad.CMHeader(mad.AttrSIDRReq, mad.TID(f.n))
	m := mad.SIDRReq{RequestID: f.n, PKey: ib.PKeyDefault, ServiceID: service,
		Private: make([]byte, mad.CMAHeaderBytes)}
	cma := mad.CMAHeader{SrcPort: 4660, Src: from, Dst: f.addr}
	require.NoError(f.t, cma.Put(m.Private))
	var b [mad.Bytes]byte
	require.NoError(f.t, m.Put(h.Put(&b)))
	f.a.HandleMAD(f.now, from, f.addr, b[:])
}

func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFloodBytes: whatever the flood, and whatever the application does, an agent
// with the default limits holds no more than FloodBytes.
func TestFloodBytes(t *testing.T) {
	seeds.Long(t)
	requests := flood(60_000)
	answer := func(f *flooded, use int) {
		for e, ok := f.a.PollEvent(); ok; e, ok = f.a.PollEvent() {
			switch {
			case e.Type == EventRequest && e.REQ != nil:
				require.NoError(t, e.Conn.Accept(f.now, Accept{QPN: 77, Bytes: use}))
			case e.Type == EventRequest:
				require.NoError(t, e.Conn.AnswerLookup(f.now, LookupAnswer{QPN: 77}))
			}
		}
	}
	send := func(f *flooded) {
		var p Packet
		for f.a.PollTransmit(&p) {
		}
	}
	one := func(uint32) netip.Addr { return attacker(1) }
	for _, c := range []struct {
		name   string
		from   func(uint32) netip.Addr
		act    func(f *flooded)
		lookup bool
	}{
		{"spoofed, accepted", attacker, func(f *flooded) { answer(f, 0); send(f) }, false},
		{"spoofed, accepted with much memory", attacker, func(f *flooded) { answer(f, 1<<20); send(f) }, false},
		{"spoofed, left waiting", attacker, func(f *flooded) { send(f) }, false},
		{"spoofed, nothing can be sent", attacker, func(f *flooded) { answer(f, 0) }, false},
		{"spoofed lookups", attacker, func(f *flooded) { answer(f, 0); send(f) }, true},
		{"one source, accepted", one, func(f *flooded) { answer(f, 0); send(f) }, false},
		{"one source, left waiting", one, func(f *flooded) { send(f) }, false},
		{"spoofed, taken back half of the time", attacker, func(f *flooded) {
			if f.n%2 == 0 {
				f.withdraw(attacker(f.n - 1))
			}
			answer(f, 0)
			send(f)
		}, false},
		{"spoofed, every other one taken back, and nobody looks", attacker, func(f *flooded) {
			if f.n%2 == 0 {
				f.withdraw(attacker(f.n - 1))
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlooded(t)
			before := heapBytes()
			_, err := f.a.Listen(service, netip.Addr{}, 0)
			require.NoError(t, err)
			for i := range uint32(requests) {
				if c.lookup {
					f.lookup(c.from(i))
				} else {
					f.request(c.from(i))
				}
				c.act(f)
				f.now += 30e9 / int64(requests) // half-open connections are given up, and not forgotten
				f.a.HandleTimeout(f.now)
			}
			held, n := heapBytes()-before, f.a.Counts()
			t.Logf("%.1f MiB: %+v, evicted %d, not admitted %d", float64(held)/(1<<20), n, f.a.stats.Evicted,
				f.a.stats.DropBacklog)
			require.LessOrEqual(t, held, FloodBytes)
			l := &DefaultLimits
			require.LessOrEqual(t, n.HalfOpen, l.HalfOpen)
			require.LessOrEqual(t, n.HalfBytes, l.HalfOpenBytes)
			require.LessOrEqual(t, n.Waiting, l.Backlog)
			require.LessOrEqual(t, n.Timewait, l.Timewait)
			require.Greater(t, n.Conns+n.Timewait, 100, "the flood is one")
		})
	}
}
