package linktest

import (
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

func testGetters(t *testing.T, p Pair) {
	for _, l := range []link.Link{p.A, p.B} {
		require.NotEmpty(t, l.Addrs())
		require.True(t, l.MTU().Valid())
		require.NotEmpty(t, l.Capabilities().Name)
		now := l.Now()
		require.GreaterOrEqual(t, l.Now(), now)
		n, err := l.Recv(make([]edge.RxPacket, 1))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Zero(t, l.Stats().RxPackets)
	}
}

func testWake(t *testing.T, p Pair) {
	// What is left of tests before.
	Drive(t, p.A, func() bool { return !p.A.Blocked() })
	Drain(t, p.A)
	require.NoError(t, p.A.Wait(0), "nothing there")
	p.A.Wake()
	p.A.Wake()
	require.NoError(t, p.A.Wait(-1), "a wake before counts")
	start := p.A.Now()
	require.NoError(t, p.A.Wait(20*time.Millisecond))
	if !p.A.Capabilities().Virtual {
		require.GreaterOrEqual(t, p.A.Now()-start, int64(15*time.Millisecond), "two wakes are one")
	}
	done := make(chan error)
	for range 100 {
		go func() { done <- p.A.Wait(-1) }()
		p.A.Wake()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(giveUp):
			t.Fatal("Wake was lost")
		}
	}
	// A packet ends the wait, too.
	r := rand.New(rand.NewPCG(8, 8))
	SendAll(t, p.B, []edge.TxPacket{Packet(r, NewPath(p.B, p.A), 1)})
	Receive(t, p.A, 1)
}

// A batch without room takes nothing, and leaves what is there for the next.
func testNoRoom(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(11, 11))
	path := NewPath(p.A, p.B)
	batch := []edge.TxPacket{Packet(r, path, 100), Packet(r, path, 100), Packet(r, path, 7)}
	SendAll(t, p.A, batch)
	for range 3 {
		require.NoError(t, p.B.Wait(time.Millisecond))
		n, err := p.B.Recv(nil)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	Await(t, p.B, batch)
}

func testClose(t *testing.T, p Pair) {
	require.NoError(t, p.A.Close())
	require.NoError(t, p.A.Close())
	_, err := p.A.Recv(make([]edge.RxPacket, 1))
	require.ErrorIs(t, err, link.ErrClosed)
	require.True(t, errors.Is(err, net.ErrClosed))
	require.ErrorIs(t, p.A.Wait(-1), link.ErrClosed)
	p.A.Wake()
	p.A.Stats()
	p.A.Capabilities()
}

func testNoAllocation(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(9, 9))
	path := NewPath(p.A, p.B)
	n := min(1024, p.maxPayload())
	batch := make([]edge.TxPacket, 20)
	for i := range batch {
		batch[i] = Packet(r, path, n)
	}
	rx := make([]edge.RxPacket, 64)
	round := func() {
		p.A.Send(batch)
		got := 0
		for tries := 0; got < len(batch) && tries < 1e6; tries++ {
			if p.A.Blocked() {
				p.A.Send(nil)
			}
			k, err := receive(p.B, rx)
			if err != nil {
				panic(err)
			}
			if k == 0 {
				if err := p.B.Wait(time.Second); err != nil {
					panic(err)
				}
			}
			got += k
		}
		if got != len(batch) {
			panic("packets were lost")
		}
	}
	check(t, p.A, p.B, p.Hops, batch) // warm up: buffers, neighbours
	// What the kernel tells of neighbours meanwhile is read on another goroutine, which
	// allocates, and counts.
	least := testing.AllocsPerRun(50, round)
	for tries := 0; least > 0 && tries < 20; tries++ {
		least = min(least, testing.AllocsPerRun(50, round))
	}
	require.Zero(t, least)
}
