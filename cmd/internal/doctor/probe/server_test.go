package probe

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// stage is a server by itself, whose answers are looked at.
type stage struct {
	*Server
	now time.Time
	out []packet
}

// sink keeps what is sent.
type sink struct {
	s  *stage
	at netip.AddrPort
}

func (k sink) local() netip.AddrPort { return k.at }
func (k sink) send(b []byte, to netip.AddrPort, tos uint8) error {
	k.s.out = append(k.s.out, packet{from: k.at, to: to, b: append([]byte(nil), b...), tos: tos})
	return nil
}
func (sink) recv([]byte, time.Time) (int, arrival, error) { panic("not used") }
func (sink) drops() (drops, bool)                         { return drops{}, false }
func (sink) close()                                       {}

func newStage() *stage {
	s := &stage{now: time.Unix(1e9, 0)}
	s.Server = newServer(sink{s, port(serverAt, 4791)}, sink{s, port(serverAt, 50000)},
		func() time.Time { return s.now }, nil)
	return s
}

// deliver hands the server a packet and returns what it sends.
func (s *stage) deliver(from netip.AddrPort, b []byte) []packet {
	s.out = nil
	s.handle(b, arrival{from: from, ttl: 64}, make([]byte, 0, 1<<16))
	return s.out
}

// packetOf is a question of a client.
func packetOf(from netip.AddrPort, m message, size int) []byte {
	m.Src, m.Dst = endpointOf(from), endpointOf(port(serverAt, 4791))
	return m.encode(nil, size)
}

func (s *stage) tokenFor(t *testing.T, from netip.AddrPort) [16]byte {
	t.Helper()
	out := s.deliver(from, packetOf(from, message{Type: hello}, 0))
	require.Len(t, out, 1)
	var m message
	require.True(t, m.decode(out[0].b))
	require.EqualValues(t, welcome, m.Type)
	return m.Token
}

// No answer is longer than its question, whatever the question.
func TestNoAmplification(t *testing.T) {
	s := newStage()
	from := port(clientAt, 50001)
	token := s.tokenFor(t, from)
	r := rand.New(rand.NewPCG(1, 2))
	answers, n := 0, seeds.Fewer(20000)
	if testing.Short() {
		n = 2000
	}
	for range n {
		m := message{Type: uint8(r.IntN(9)), Flags: uint8(r.UintN(256)), Run: r.Uint32N(100), Seq: r.Uint32(),
			Token: token, TOS: uint8(r.UintN(256))}
		if r.IntN(4) == 0 {
			m.Token[r.IntN(16)] ^= 1
		}
		b := packetOf(from, m, r.IntN(5000))
		if r.IntN(3) == 0 {
			b[r.IntN(len(b))] ^= byte(1 + r.UintN(255))
		}
		if r.IntN(5) == 0 {
			b = b[:r.IntN(len(b)+1)]
		}
		s.now = s.now.Add(time.Millisecond)
		out := s.deliver(from, b)
		require.LessOrEqual(t, len(out), 1)
		for _, p := range out {
			answers++
			require.LessOrEqual(t, len(p.b), len(b))
			require.Equal(t, from.Addr(), p.to.Addr())
		}
	}
	require.Greater(t, answers, n/20)
	require.LessOrEqual(t, len(s.runs), maxRuns)
}

// An address that has not shown that it receives gets a welcome and nothing else.
func TestTokens(t *testing.T) {
	s := newStage()
	from, other := port(clientAt, 50001), port(netip.MustParseAddr("10.0.0.9"), 50001)
	token := s.tokenFor(t, from)
	question := func(from netip.AddrPort, token [16]byte) int {
		return len(s.deliver(from, packetOf(from, message{Type: ask, Token: token}, 0)))
	}
	require.Zero(t, question(from, [16]byte{}))
	require.Equal(t, 1, question(from, token))
	require.Equal(t, 1, question(port(clientAt, 4791), token), "another port of the same address")
	require.Zero(t, question(other, token))
	require.EqualValues(t, 2, s.stats.NoToken.Load())
	// It lasts for a while, and not for ever.
	s.now = s.now.Add(tokenTime)
	require.Equal(t, 1, question(from, token))
	s.now = s.now.Add(tokenTime)
	require.Zero(t, question(from, token))
	// Those of another server are not good here.
	require.Zero(t, question(from, newStage().tokenFor(t, from)))
}

// Answers are not answered: two servers cannot be set upon each other.
func TestNoLoops(t *testing.T) {
	s := newStage()
	from := port(clientAt, 4791)
	token := s.tokenFor(t, from)
	for _, typ := range []uint8{0, welcome, answer, tallied, 7, 255} {
		require.Empty(t, s.deliver(from, packetOf(from, message{Type: typ, Token: token}, 0)), "type %d", typ)
	}
	require.EqualValues(t, 6, s.stats.Foreign.Load())
}

func TestWelcomesAreLimited(t *testing.T) {
	s := newStage()
	welcomes := 0
	for i := range 3 * welcomesPerSecond {
		from := port(netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), 50001)
		welcomes += len(s.deliver(from, packetOf(from, message{Type: hello}, 0)))
	}
	require.Equal(t, welcomesPerSecond, welcomes)
	require.EqualValues(t, 2*welcomesPerSecond, s.stats.Throttled.Load())
	s.now = s.now.Add(time.Second)
	from := port(clientAt, 50001)
	require.Len(t, s.deliver(from, packetOf(from, message{Type: hello}, 0)), 1)
}

// What a server remembers is bounded: the oldest run goes.
func TestRunsAreBounded(t *testing.T) {
	s := newStage()
	from := port(clientAt, 50001)
	token := s.tokenFor(t, from)
	for i := range uint32(maxRuns + 10) {
		s.now = s.now.Add(time.Millisecond)
		s.deliver(from, packetOf(from, message{Type: ask, Token: token, Run: i}, 0))
	}
	require.Len(t, s.runs, maxRuns)
	require.EqualValues(t, 10, s.stats.Evicted.Load())
	require.NotContains(t, s.runs, runKey{clientAt, 9})
	require.Contains(t, s.runs, runKey{clientAt, 10})
	require.Contains(t, s.stats.String(), "0 without a token")
}

func TestTally(t *testing.T) {
	var y tally
	for _, seq := range []uint32{0, 1, 3, 2, 3, 70, maxSeq, maxSeq - 1} {
		y.add(seq, Good, ecnECT0)
	}
	y.add(5, Bad, ecnCE)
	require.Equal(t, counts{Received: 7, Reordered: 2, Duplicate: 1, BadICRC: 1, Marked: 1}, y.counts)
}

// FuzzServer feeds a server anything: it says no more than it got.
func FuzzServer(f *testing.F) {
	from := port(clientAt, 50001)
	f.Add(packetOf(from, message{Type: hello}, 0))
	f.Add(packetOf(from, message{Type: ask, Flags: wantCross}, 300))
	f.Add([]byte{0x64})
	s := newStage()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range s.deliver(from, b) {
			if len(p.b) > len(b) {
				t.Fatalf("%d bytes for %d", len(p.b), len(b))
			}
		}
	})
}

// FuzzRaw feeds the parser of IPv4 packets anything.
func FuzzRaw(f *testing.F) {
	f.Add(append([]byte{0x45, 0, 0, 120, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}, make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseRaw(b); ok && !p.from.IsValid() {
			t.Fatal("no address")
		}
	})
}

func TestParseRaw(t *testing.T) {
	b := append([]byte{
		0x46, 0, 0, 120, 0x12, 0x34, 0x00, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0, 0xC3, 0x51,
	}, make([]byte, 100)...)
	p, ok := parseRaw(b)
	require.True(t, ok)
	require.Equal(t, port(clientAt, 0xC351), p.from)
	require.EqualValues(t, 0x1234, p.id)
	require.True(t, p.noDF)
	for n := range 24 + 8 + rawKeyBytes {
		_, ok := parseRaw(b[:n])
		require.False(t, ok, n)
	}
}

func TestMessageLength(t *testing.T) {
	require.Zero(t, packetBytes%4, "%d", messageBytes)
	for size := range 1000 {
		m := message{Type: hello, Src: endpointOf(port(clientAt, 1)), Dst: endpointOf(port(serverAt, 2))}
		b := m.encode(nil, size)
		require.Zero(t, len(b)%4)
		var got message
		require.True(t, got.decode(b))
		require.Equal(t, m, got)
		require.Equal(t, Good, got.judge(b, port(clientAt, 1), port(serverAt, 2)))
	}
	for n := range packetBytes {
		var got message
		require.False(t, got.decode(make([]byte, n)))
	}
}
