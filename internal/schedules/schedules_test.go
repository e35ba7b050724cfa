package schedules

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is a world: two ends add one to a number, each in two steps, as a machine without atomics
// does.
type counter struct {
	log  io.Writer
	n    int
	read [2]int
	at   [2]int // steps done
	safe bool   // nobody reads while the other one is between its steps
	loop bool   // the first may also begin again
}

type move int

func (m move) String() string { return fmt.Sprintf("end %d", int(m)) }

var errLost = errors.New("an addition is lost")

func (c *counter) Hash() uint64 {
	s := NewState(&Rules{Skip: map[string]bool{"counter.log": true}}, 0)
	s.Add(c)
	return s.Sum()
}

func (c *counter) Actions() (all []move, over bool) {
	for i := range c.at {
		if c.at[i] < 2 && !(c.safe && c.at[i] == 0 && c.at[1-i] == 1) {
			all = append(all, move(i))
		}
	}
	return all, len(all) == 0
}

func (c *counter) Do(m move) error {
	if c.log != nil {
		fmt.Fprintf(c.log, "  at %d\n", c.at[m])
	}
	if c.at[m]++; c.at[m] == 1 {
		c.read[m] = c.n
		return nil
	}
	c.n = c.read[m] + 1
	if c.loop && m == 0 {
		c.at[0], c.n, c.read[0] = 0, 0, 0
	}
	return nil
}

func (c *counter) Final() error {
	if c.n != 2 {
		return errLost
	}
	return nil
}

func TestFindsWhatIsWrong(t *testing.T) {
	_, v := Explore[move](func(log io.Writer) *counter { return &counter{log: log} }, 0)
	require.ErrorIs(t, v, errLost)
	require.Equal(t, "end 0\n  at 0\nend 1\n  at 0\nend 0\n  at 1\nend 1\n  at 1\n", v.Trace)
}

func TestCounts(t *testing.T) {
	c, v := Explore[move](func(log io.Writer) *counter { return &counter{log: log, safe: true} }, 0)
	require.Nil(t, v)
	require.Equal(t, 2.0, c.Schedules)
	require.Equal(t, 4, c.Depth)
	require.Equal(t, 9, c.States)
	require.False(t, c.Cut)
	c, v = Explore[move](func(log io.Writer) *counter { return &counter{log: log, safe: true} }, 6)
	require.Nil(t, v)
	require.Equal(t, 6, c.States)
	require.True(t, c.Cut)
}

func TestForEver(t *testing.T) {
	_, v := Explore[move](func(log io.Writer) *counter { return &counter{log: log, loop: true} }, 0)
	require.ErrorContains(t, v, "for ever")
}

// A state is told by what it is, not by where it lies or when it was.
func TestState(t *testing.T) {
	type inner struct{ n int }
	type outer struct {
		at, unset int64
		set       bool
		m         map[string]*inner
		list      []*inner
		raw       [3]byte
		scratch   int
	}
	rules := Rules{
		Skip: map[string]bool{"outer.scratch": true}, Times: map[string]int64{"outer.at": 5},
		When: map[string]func(reflect.Value) bool{
			"outer.unset": func(v reflect.Value) bool { return v.FieldByName("set").Bool() },
		},
	}
	sum := func(now int64, change func(*outer)) uint64 {
		a, b := &inner{1}, &inner{2}
		o := &outer{at: now - 3, unset: now, m: map[string]*inner{"b": b, "a": a}, list: []*inner{a, b},
			scratch: int(now)}
		if change != nil {
			change(o)
		}
		s := NewState(&rules, now)
		s.Add(o)
		return s.Sum()
	}
	same := sum(100, nil)
	for range 20 { // maps are walked in one order
		require.Equal(t, same, sum(200, nil))
	}
	require.Equal(t, sum(100, func(o *outer) { o.at = 95 }), sum(100, func(o *outer) { o.at = 7 }), "both long ago")
	for i, change := range []func(*outer){
		func(o *outer) { o.at++ }, func(o *outer) { o.set = true }, func(o *outer) { o.m["a"].n++ },
		func(o *outer) { o.list[0] = &inner{1} }, func(o *outer) { o.raw[1] = 1 },
		func(o *outer) { o.m["c"] = nil }, func(o *outer) { o.list = o.list[:1] },
	} {
		require.NotEqual(t, same, sum(100, change), "%d", i)
	}
}
