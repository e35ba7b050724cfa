package matrix

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/stretchr/testify/require"
)

// blank is a peer that only opens sessions, and counts them; max, if not 0, is how many it opens.
type blank struct {
	peer.Peer
	mu           sync.Mutex
	open, opened int
	max          int
}

var errNoMore = errors.New("no more sessions")

func (b *blank) Name() string    { return "blank" }
func (b *blank) Caps() peer.Caps { return peer.Caps{} }

func (b *blank) Open(context.Context) (peer.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.max > 0 && b.opened == b.max {
		return nil, errNoMore
	}
	b.open++
	b.opened++
	return &blankSession{b: b}, nil
}

type blankSession struct {
	peer.Session
	b *blank
}

func (s *blankSession) MR(int, peer.Access) (peer.MR, error) { return nil, nil }

func (s *blankSession) Close() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.open--
	return nil
}

func laneEnv() (*Env, *blank, *blank) {
	a, b := new(blank), new(blank)
	return &Env{Report: new(Report), Subject: a, Ref: b, Guest: new(sync.RWMutex)}, a, b
}

func TestLanesReportInOrder(t *testing.T) {
	const n = 4
	e, a, b := laneEnv()
	// Each job waits for the one behind it, so that they all run at once and end in reverse.
	var done [n + 1]chan struct{}
	for i := range done {
		done[i] = make(chan struct{})
	}
	close(done[n])
	var jobs []job
	for i := range n {
		jobs = append(jobs, job{rows: make([]Row, 2), run: func(*pair) []Row {
			<-done[i+1]
			defer close(done[i])
			return []Row{{Op: strconv.Itoa(i)}, {Op: strconv.Itoa(i) + "b"}}
		}})
	}
	require.NoError(t, e.inLanes(context.Background(), requester, n, jobs))
	var ops []string
	for _, row := range e.Report.Rows() {
		ops = append(ops, row.Op)
	}
	require.Equal(t, []string{"0", "0b", "1", "1b", "2", "2b", "3", "3b"}, ops)
	require.Zero(t, a.open+b.open, "sessions left open")
}

func TestLanesSayWhatFailed(t *testing.T) {
	e, a, b := laneEnv()
	b.max = 1
	ran := 0
	jobs := []job{{rows: make([]Row, 1), run: func(*pair) []Row { ran++; return nil }}}
	require.NoError(t, e.inLanes(context.Background(), requester, 2, jobs))
	require.ErrorIs(t, e.inLanes(context.Background(), responder, 2, jobs), errNoMore)
	require.Equal(t, 1, ran)
	require.Zero(t, a.open+b.open, "sessions left open")
}

func TestLanesStopWithTheContext(t *testing.T) {
	e, _, _ := laneEnv()
	ctx, cancel := context.WithCancel(context.Background())
	ran := 0
	jobs := []job{
		{rows: make([]Row, 1), run: func(*pair) []Row { ran++; cancel(); return nil }},
		{rows: make([]Row, 1), run: func(*pair) []Row { ran++; return nil }},
	}
	require.ErrorIs(t, e.inLanes(ctx, requester, 1, jobs), context.Canceled)
	require.Equal(t, 1, ran)
}
