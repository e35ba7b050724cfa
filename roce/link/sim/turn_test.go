package sim

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goroutines that ask at the same time act one at a time, in the order in which they
// were started, each until it waits.
func TestTurns(t *testing.T) {
	Test(t, Config{}, func(t *testing.T, net *Fabric) {
		for range 200 {
			var order []int
			begin := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					<-begin // all at once
					for j := range 3 {
						net.Turn()
						order = append(order, 10*j+i) // nobody else does
					}
				})
			}
			close(begin)
			wg.Wait()
			require.Equal(t, []int{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25}, order)
		}
	})
}

// With Shuffle the seed says who is next.
func TestTurnsShuffle(t *testing.T) {
	run := func(seed uint64) (order []int) {
		Test(t, Config{Seed: seed, Shuffle: true}, func(t *testing.T, net *Fabric) {
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					net.Turn()
					order = append(order, i)
				})
			}
			wg.Wait()
		})
		return order
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
	require.False(t, slices.IsSorted(run(1)))
}

// Goroutines that several goroutines start are in the order of those: each after the one that
// has started it, and before the next of its parent's siblings.
func TestTurnsOfChildren(t *testing.T) {
	Test(t, Config{}, func(t *testing.T, net *Fabric) {
		for range 50 {
			var order []string
			begin := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					<-begin
					for j := range 3 {
						wg.Go(func() {
							runtime.Gosched()
							net.Turn()
							order = append(order, fmt.Sprint(i, j))
						})
					}
					net.Turn()
					order = append(order, fmt.Sprint(i))
				})
			}
			close(begin)
			wg.Wait()
			require.Equal(t, "0 0 0 0 1 0 2 1 1 0 1 1 1 2 2 2 0 2 1 2 2", strings.Join(order, " "))
		}
	})
}

// The clock of the network is that of package time.
func TestOneClock(t *testing.T) {
	Test(t, Config{}, func(t *testing.T, net *Fabric) {
		start := time.Now()
		var at []time.Duration
		for _, d := range []time.Duration{3 * time.Second, time.Hour} {
			net.At(int64(d), func() { at = append(at, time.Since(start)) })
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		<-ctx.Done()
		require.EqualValues(t, 5e9, net.Now())
		require.Equal(t, []time.Duration{3 * time.Second}, at)
		net.RunFor(2 * time.Hour)
		require.Equal(t, 2*time.Hour+5*time.Second, time.Since(start))
		require.Len(t, at, 2)
		require.Equal(t, time.Hour, at[1])
	})
}

// strayEnv has TestStray do what fails.
const strayEnv = "SIM_STRAY"

// TestStray is for TestNothingHangs: tests that fail, and one behind them that does not.
func TestStray(t *testing.T) {
	if os.Getenv(strayEnv) == "" {
		t.Skip("fails on purpose, when TestNothingHangs starts it")
	}
	t.Run("sleeps", func(t *testing.T) {
		Test(t, Config{Seed: 77}, func(*testing.T, *Fabric) { go func() { time.Sleep(time.Hour) }() })
	})
	t.Run("waits", func(t *testing.T) {
		Test(t, Config{}, func(*testing.T, *Fabric) { go func() { <-make(chan int) }() })
	})
	t.Run("all", func(t *testing.T) {
		Test(t, Config{}, func(*testing.T, *Fabric) { <-make(chan int) })
	})
	t.Run("good", func(t *testing.T) {
		Test(t, Config{}, func(t *testing.T, net *Fabric) { net.RunFor(time.Hour) })
	})
}

// A Test in which all wait for ever fails, as does one that leaves goroutines behind, also such as
// sleep. The tests after it go on.
func TestNothingHangs(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestStray$", "-test.v")
	child.Env = append(os.Environ(), strayEnv+"=1")
	said, err := child.CombinedOutput()
	out := string(said)
	require.Error(t, err)
	for _, name := range []string{"sleeps", "waits", "all"} {
		require.Contains(t, out, "--- FAIL: TestStray/"+name, out)
	}
	require.Contains(t, out, "--- PASS: TestStray/good", out)
	require.Contains(t, out, "turn_test.go:", "where those are that are left")
	require.NotContains(t, out, "panic:", out)
	require.PanicsWithError(t, "deadlock: all goroutines in bubble are blocked", func() {
		Run(Config{}, func(*Fabric) { <-make(chan int) })
	})
	require.PanicsWithError(t, "deadlock: main bubble goroutine has exited but blocked goroutines remain", func() {
		Run(Config{}, func(*Fabric) { go func() { <-make(chan int) }() })
	})
}

// What steps by hand is for fabrics that do not step by themselves.
func TestNotByHand(t *testing.T) {
	Test(t, Config{}, func(t *testing.T, net *Fabric) {
		l, err := net.Link(netip.MustParseAddr("192.0.2.1"))
		require.NoError(t, err)
		require.Panics(t, func() { net.Step() })
		require.Panics(t, func() { _ = l.Wait(0) })
		require.True(t, l.Scheduled())
	})
	net := New(Config{})
	net.Turn() // nothing to wait for
	l, err := net.Link(netip.MustParseAddr("192.0.2.1"))
	require.NoError(t, err)
	require.False(t, l.Scheduled())
}

// GOMAXPROCS is what it was afterwards, also with several at a time.
func TestOneCPU(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(before)
	a := oneCPU()
	b := oneCPU()
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
	a()
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
	b()
	require.Equal(t, 3, runtime.GOMAXPROCS(0))
}

// Whether there is something to collect is asked at few steps only.
func TestCollectorLooksSeldom(t *testing.T) {
	_ = append(make([]byte, collectBytes), byte(len(os.Args))) // something to collect
	var c collector
	for range collectEvery - 1 {
		c.step()
		require.Zero(t, c.at)
	}
	c.step()
	require.NotZero(t, c.at)
}
