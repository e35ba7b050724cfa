package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/transport/cc"
)

// scripted is a controller that says what a test wants and keeps what it is told.
type scripted struct {
	rate     cc.Rate
	sent     int
	timeouts int
}

func (s *scripted) OnSend(_ int64, n int)    { s.sent += n }
func (s *scripted) OnTimeout(int64)          { s.timeouts++ }
func (s *scripted) OnCNP(int64)              {}
func (s *scripted) OnNAK(int64)              {}
func (s *scripted) Rate(int64) cc.Rate       { return s.rate }
func (s *scripted) State(int64) (z cc.State) { return z }

func newScripted(t testing.TB) (*loop, *scripted) {
	l := newLoop(t, loopOptions{tuning: Tuning{LossProbe: -1, Congestion: cc.Config{Algorithm: cc.DCQCNPaper}}})
	s := &scripted{}
	l.a.qp.cc.ctl = s
	return l, s
}

// A window that is ruled bounds what is outstanding, and the last packet that
// it admits asks for an ACK, so that the transfer goes on.
func TestControllerWindow(t *testing.T) {
	l, s := newScripted(t)
	l.a.qp.sq.win.rule(5)
	l.a.qp.sq.win.ackEvery = 5
	const n = 64 << 10
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, n)},
		RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
	}))
	for range n / 1024 / 5 {
		require.Equal(t, 5, l.carry(l.a, l.b))
		require.Equal(t, 1, l.carry(l.b, l.a))
	}
	l.run()
	require.Len(t, completions(l.a.scq), 1)
	require.Equal(t, n+64*(12+4+66)+16, s.sent, "64 packets, the first with a RETH")
	require.Zero(t, s.timeouts)

	l.a.qp.sq.win.release(l.a.qp)
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.a.at(0, 1024)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
	}))
	require.Equal(t, 1, l.a.e.PollTransmit(l.now, l.batch), "lost")
	l.run()
	require.Equal(t, 1, s.timeouts)
}

// ACKs go out while data has to wait.
func TestControlIsNotPaced(t *testing.T) {
	l, s := newScripted(t)
	s.rate = cc.Mbps
	write := func(from, to *side) {
		require.NoError(t, from.qp.PostSend(l.now, &SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{from.at(0, 4096)},
			RemoteAddr: to.region.IOVA(), RKey: to.region.RKey(),
		}))
	}
	write(l.a, l.b)
	require.Equal(t, 1, l.carry(l.a, l.b), "the rate admits one packet in 9 ms")
	for range 10 {
		write(l.b, l.a)
		l.carry(l.b, l.a)
		require.Equal(t, 1, l.carry(l.a, l.b))
		l.carry(l.b, l.a)
		require.Len(t, completions(l.b.scq), 1)
	}
	require.Empty(t, completions(l.a.scq))
	l.run()
	require.Len(t, completions(l.a.scq), 1)
}

// Pacing allocates nothing.
func TestPacedNoAllocs(t *testing.T) {
	l := newLoop(t, loopOptions{tuning: Tuning{Congestion: cc.Config{
		Algorithm: cc.DCQCNMellanox, StartRate: 2 * cc.Gbps,
	}}})
	for _, op := range []WROpcode{WRWrite, WRRead} {
		wr := SendWR{
			Opcode: op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 64<<10)},
			RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
		}
		var wc [4]WC
		round := func() {
			if err := l.a.qp.PostSend(l.now, &wr); err != nil {
				t.Fatal(err)
			}
			l.run()
			if l.a.scq.Poll(wc[:]) != 1 || wc[0].Status != WCSuccess {
				t.Fatal("not complete")
			}
			l.a.qp.cc.ctl.OnCNP(l.now) // keeps the rate down
		}
		for range 20 {
			round()
		}
		holds := l.a.e.Counters().PacingHolds + l.b.e.Counters().PacingHolds
		require.Zero(t, testing.AllocsPerRun(50, round))
		require.Greater(t, l.a.e.Counters().PacingHolds+l.b.e.Counters().PacingHolds, holds)
	}
}
