package roce

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// sleeper is a link of a host that is suspended for a while: nothing runs, nothing is heard. Its
// clock stands still, as CLOCK_MONOTONIC does, or counts the time, as that of a virtual machine may
// that was stopped.
type sleeper struct {
	*sim.Link
	counts bool
	mu     sync.Mutex
	asleep bool
	since  int64 // then
	slept  int64 // altogether
	at     int64
	set    bool
}

func (l *sleeper) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asleep {
		return l.since - l.slept
	}
	return l.Link.Now() - l.slept
}

func (l *sleeper) Attach(f func()) {
	if f != nil {
		g := f
		f = func() {
			l.mu.Lock()
			asleep := l.asleep
			l.mu.Unlock()
			if !asleep {
				g()
			}
		}
	}
	l.Link.Attach(f)
}

func (l *sleeper) SetTimer(at int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.set = at, ok
	if !l.asleep {
		l.Link.SetTimer(at+l.slept, ok)
	}
}

// sleep suspends the host, or wakes it.
func (l *sleeper) sleep(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Link.Now()
	if l.asleep = on; on {
		l.since = now
		l.Link.SetTimer(0, false)
		return
	}
	if !l.counts {
		l.slept += now - l.since
	}
	l.Link.SetTimer(l.at+l.slept, l.set)
}

var _ link.Driven = (*sleeper)(nil)

// A host is suspended for an hour, and the peer is no more. KeepAlive finds that soon after the
// host is awake again, whether the peer's machine is there or not, and whether the host's clock
// knows of the hour or not, also if the application only waits for messages.
func TestSuspendedForAnHour(t *testing.T) {
	const limit = 2 * time.Minute
	for name, tt := range map[string]struct {
		away, killed bool // the peer's machine stays away; its program ends without a word
	}{
		"the peer has closed":    {},
		"the machine is gone":    {away: true},
		"the program was killed": {killed: true},
	} {
		for clock, counts := range map[string]bool{"monotonic": false, "jumps": true} {
			t.Run(name+", clock "+clock, func(t *testing.T) {
				sleepers(t, counts, ConnConfig{
					KeepAlive: 15 * time.Second,
				}, func(t *testing.T, network *sim.Fabric, l *sleeper, c, s *Conn) {
					ended := make(chan error, 1)
					go func() {
						_, err := c.Recv(t.Context(), make([]byte, 100))
						ended <- err
					}()
					time.Sleep(time.Second)
					l.sleep(true)
					network.Partition(rocetest.SimAddr(1), rocetest.SimAddr(2), true)
					if tt.killed {
						_ = s.Device().Close()
					} else {
						_ = s.close(0)
					}
					time.Sleep(time.Hour)
					network.Partition(rocetest.SimAddr(1), rocetest.SimAddr(2), tt.away)
					l.sleep(false)
					select {
					case err := <-ended:
						require.Error(t, err)
						require.NotErrorIs(t, err, io.EOF)
					case <-time.After(limit):
						t.Fatal("the connection is still there")
					}
				})
			})
		}
	}
}

// Both hosts are suspended, or one for a moment while its clock goes on by an hour: nothing is
// over.
func TestSuspendedAndBack(t *testing.T) {
	for clock, counts := range map[string]bool{"monotonic": false, "jumps": true} {
		t.Run(clock, func(t *testing.T) {
			sleepers(t, counts, ConnConfig{}, func(t *testing.T, network *sim.Fabric, l *sleeper, c, s *Conn) {
				for range 3 {
					require.NoError(t, c.Send(t.Context(), []byte("good night")))
					l.sleep(true)
					time.Sleep(5 * time.Second) // the peer is patient
					if counts {
						l.slept -= int64(time.Hour)
					}
					l.sleep(false)
					for _, to := range [][2]*Conn{{c, s}, {s, c}} {
						require.NoError(t, to[0].Send(t.Context(), []byte("good morning")))
					}
					b := make([]byte, 100)
					for _, from := range []*Conn{s, s, c} {
						n, err := from.Recv(t.Context(), b)
						require.NoError(t, err)
						require.Contains(t, string(b[:n]), "good ")
					}
				}
			})
		})
	}
}

// sleepers runs f with a connection, the client of which has a host that can be suspended.
func sleepers(t *testing.T, counts bool, cfg ConnConfig,
	f func(t *testing.T, network *sim.Fabric, l *sleeper, client, server *Conn)) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, network *sim.Fabric) {
		inner, err := network.Link(rocetest.SimAddr(1))
		require.NoError(t, err)
		l := &sleeper{Link: inner, counts: counts}
		client := rocetest.OpenDevice(t, verbs.Config{Link: l, Rand: network.Rand()})
		other, err := network.Link(rocetest.SimAddr(2))
		require.NoError(t, err)
		server := rocetest.OpenDevice(t, verbs.Config{Link: other, Rand: network.Rand()})
		c, s := connPair(t, client, server, cfg)
		f(t, network, l, c, s)
	})
}
