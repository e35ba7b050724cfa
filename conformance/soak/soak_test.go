package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if Child() {
		return
	}
	os.Exit(m.Run())
}

// One period with all that a run does, in seconds. It is too short to tell of growth.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for some seconds, and waits for what was killed")
	}
	var log bytes.Buffer
	s, err := Run(t.Context(), Options{Period: 4 * time.Second, Loss: 0.01, Seed: 1, Log: &log, Stderr: io.Discard})
	require.NoError(t, err)
	require.Empty(t, s.Faults, log.String())
	require.Len(t, s.Rests[theServer], 1)
	require.Len(t, s.Exchanges, 8)
	require.Equal(t, 1, s.Events["stop "+theServer])
	require.Positive(t, s.Events["kill "+mortalServer])
	require.Positive(t, s.Returned)
	var out strings.Builder
	s.Print(&out)
	require.Contains(t, out.String(), "no faults")
	require.Contains(t, log.String(), "rest 1")
}

// series is samples of a heap.
func series(heap ...int) (all []Sample) {
	for _, h := range heap {
		all = append(all, Sample{HeapBytes: h << 20, Descriptors: 100})
	}
	return all
}

// What goes up and down is flat; what goes up is not, nor what leaks one at a time.
func TestTrends(t *testing.T) {
	grew := func(all []Sample) (names []string) {
		for _, t := range trends(all) {
			if t.grew {
				names = append(names, t.name)
			}
		}
		return names
	}
	require.Empty(t, grew(series(1, 50, 60, 50, 61, 55, 60, 52)))
	require.Empty(t, grew(series(1, 50, 50, 50, 99, 55, 55, 56)), "the first third counts, and the last")
	require.Equal(t, []string{"heap bytes"}, grew(series(1, 50, 51, 52, 54, 56, 58, 59)))
	require.Nil(t, trends(series(1, 2, 3)), "too few")
	leak := series(50, 50, 50, 50, 50, 50, 50, 50, 50, 50)
	for i := range leak {
		leak[i].PDs = 4 + i
		leak[i].Goroutines = 10 + i%3
		leak[i].Slots = 2
	}
	leak[9].Slots = 3
	require.Equal(t, []string{"slots of the address", "protection domains"}, grew(leak))
}

// Times are counted in buckets that are an eighth of their time wide, and without a gap.
func TestLatency(t *testing.T) {
	var l latency
	for us := range 1 << 14 {
		d := time.Duration(us) * time.Microsecond
		l.add(d)
		n := l.take()
		i := len(n) - 1
		require.Less(t, d, bucketTop(i))
		if i > 0 {
			require.GreaterOrEqual(t, d, bucketTop(i-1))
		}
		require.LessOrEqual(t, bucketTop(i)-d, d/8+time.Microsecond)
	}
	require.Empty(t, l.take())
	l.add(-1)
	l.add(time.Hour)
	l.add(1000 * time.Hour)
	require.Len(t, l.take(), len(l))
	var all []Sample
	for period := range 10 { // of which the first two warm up
		for range 98 {
			l.add(time.Duration(period) * time.Millisecond)
		}
		l.add(time.Second)
		l.add(time.Second)
		all = append(all, Sample{Exchanges: l.take()})
	}
	first, last := thirds(all)
	require.Zero(t, within(nil, 0.5))
	require.InEpsilon(t, 3*time.Millisecond, within(first, 0.5), 0.2)
	require.InEpsilon(t, 8*time.Millisecond, within(last, 0.5), 0.2)
	require.InEpsilon(t, time.Second, within(last, 0.99), 0.2)
}

// A disturbance makes errors of these kinds, and no others.
func TestKindOf(t *testing.T) {
	status := func(s verbs.WCStatus) error {
		return &roce.OpError{Op: "send", Err: verbs.WCError(&verbs.WC{Status: s})}
	}
	for _, c := range []struct {
		err       error
		explained bool
	}{
		{status(verbs.WCRetryExcErr), true},
		{status(verbs.WCFlushErr), true},
		{status(verbs.WCRemoteAccessErr), false},
		{status(verbs.WCRemoteInvReqErr), false},
		{status(verbs.WCLocalProtErr), false},
		{&roce.OpError{Op: "dial", Err: roce.ErrConnRefused}, true},
		{&roce.OpError{Op: "recv", Err: context.DeadlineExceeded}, false},
		{&wrongError{"byte 3"}, false},
		{fmt.Errorf("%w", syscall.ECONNRESET), true},
		{roce.ErrLimit, false},
		{errors.New("other"), false},
	} {
		require.Equal(t, c.explained, kindOf(c.err) != "", "%v", c.err)
	}
}

// Of the errors between the two that stay, a change of the MTU explains those that come soon after
// it, and a link that was down those of connections that were not made. A process that stood still
// explains none.
func TestNoteError(t *testing.T) {
	const exchange, dial = "conn exchange: x", "stream " + dialing + ": x"
	late := 100 + int64(explains/time.Second) + 1
	for _, c := range []struct {
		name, peer, kind, what string
		at                     int64
		down, mtu              bool // when the link was disturbed, if it was
		faults                 int
	}{
		{theClient, theServer, "no answer", exchange, 101, false, true, 0},
		{theClient, theServer, "no answer", exchange, late, false, true, 1},
		{theClient, theServer, "", exchange, 101, true, true, 1},
		{theClient, theServer, "no answer", exchange, 101, true, false, 1},
		{theClient, theServer, "no route", dial, 101, true, false, 0},
		{theClient, theServer, "no route", dial, late, true, false, 1},
		{theClient, theServer, "no answer", exchange, 101, false, false, 1},
		{theClient, theServer, "no answer", dial, 101, false, false, 1},
		{theClient, mortalServer, "no answer", exchange, late, false, false, 0},
		{mortalClient, theServer, "no answer", exchange, late, false, false, 0},
		{mortalClient, theServer, "", exchange, late, false, false, 1},
	} {
		r := &run{Options: Options{Log: io.Discard}, sum: Summary{Errors: map[string]int{}}}
		if c.down {
			r.downAt = time.Unix(100, 0)
		}
		if c.mtu {
			r.mtuAt = time.Unix(100, 0)
		}
		r.noteError(c.name, said{Peer: c.peer, Kind: c.kind, At: time.Unix(c.at, 0).UnixNano(), Error: c.what})
		require.Len(t, r.sum.Faults, c.faults, "%+v", c)
	}
}

// A pair that exchanges nothing fails the run; a process that was started again counts from 0, and
// may have done as much as the one before.
func TestProgress(t *testing.T) {
	r := &run{Options: Options{Log: io.Discard}, done: map[string]int64{}, sum: Summary{Exchanges: map[string]int64{}}}
	r.progress("a", "b", 5)
	r.progress("a", "b", 7)
	r.anew("a")
	r.progress("a", "b", 3)
	r.anew("a")
	r.progress("a", "b", 3)
	require.Empty(t, r.sum.Faults)
	require.EqualValues(t, 13, r.sum.Exchanges["a to b"])
	r.anew("other a")
	r.progress("a", "b", 3)
	require.Len(t, r.sum.Faults, 1)
}

func TestCompare(t *testing.T) {
	require.NoError(t, compare("m", []byte("abc"), []byte("abc")))
	require.ErrorContains(t, compare("m", []byte("abd"), []byte("abc")), "byte 2 of 3 is 0x64 instead of 0x63")
	require.ErrorContains(t, compare("m", []byte("ab"), []byte("abc")), "2 bytes came back of 3")
	a, b := make([]byte, 64), make([]byte, 64)
	r := rand.New(rand.NewPCG(1, 1))
	random(r, a)
	random(r, b)
	require.NotEqual(t, a, b)
}
