package verbs

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// turnLink lets the goroutine of a device go round once for each turn of the
// test, with a clock that stands still, and notes what is sent.
type turnLink struct {
	link.Link
	clock   atomic.Int64
	entered chan struct{} // the goroutine is about to receive
	turns   chan struct{} // may do so
	waits   chan struct{} // is about to block

	mu   sync.Mutex
	sent []int                  // packets of each call
	feed [][]transport.RxPacket // what the next calls of Recv return
}

func (l *turnLink) Now() int64 { return l.clock.Load() }

func (l *turnLink) Recv(b []transport.RxPacket) (int, error) {
	l.entered <- struct{}{}
	<-l.turns
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.feed) > 0 {
		n := copy(b, l.feed[0])
		l.feed = l.feed[1:]
		return n, nil
	}
	return l.Link.Recv(b)
}

func (l *turnLink) Wait(timeout time.Duration) error {
	l.waits <- struct{}{}
	return l.Link.Wait(-1)
}

func (l *turnLink) Send(batch []transport.TxPacket) {
	if len(batch) > 0 {
		l.mu.Lock()
		l.sent = append(l.sent, len(batch))
		l.mu.Unlock()
	}
	l.Link.Send(batch)
}

// takeSent returns the packets of each call of Send since the last time.
func (l *turnLink) takeSent() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent
	l.sent = nil
	return s
}

// turn lets the goroutine receive once and waits until it is done with that.
func (l *turnLink) turn() {
	l.turns <- struct{}{}
	<-l.entered
}

// turnSpin is how long that goroutine looks.
const turnSpin = 30 * time.Microsecond

// wholeWindow has a connection begin with its whole window.
var wholeWindow = transport.Tuning{MaxUnackedPackets: transport.DefaultMaxUnackedPackets}

// newTurnEnd returns an event-driven device whose goroutine stands before its first turn.
func newTurnEnd(t *testing.T) (*end, *turnLink) {
	l := &turnLink{entered: make(chan struct{}), turns: make(chan struct{}), waits: make(chan struct{}, 1)}
	d := openDevice(t,
		Config{MTU: ib.MTU4096, Spin: turnSpin, Tuning: wholeWindow, WrapLink: func(real link.Link) (link.Link, error) {
			l.Link = real
			return l, nil
		}})
	<-l.entered
	e := newEnd(t, d, 1<<16, QPInitAttr{})
	t.Cleanup(func() {
		close(l.turns)
		go func() {
			for range l.entered {
			}
		}()
	})
	return e, l
}

// newTurns is newTurnEnd with one message on its way to nobody.
func newTurns(t *testing.T) (*end, *turnLink) {
	e, l := newTurnEnd(t)
	require.NoError(t, e.qp.Connect(RemoteInfo{QPN: 77, GID: ib.GIDFromAddr(loopback4())}, withMTU(ib.MTU4096)))
	e.post(t, 1, 64)
	require.Equal(t, []int{1}, l.takeSent(), "a message by itself leaves in the call that posts it")
	return e, l
}

// post posts n WRITEs of size bytes one by one.
func (e *end) post(t *testing.T, n, size int) {
	for range n {
		require.NoError(t, e.qp.PostSend(&SendWR{Opcode: WRWrite, SGList: []SGE{e.mr.SGE(0, size)}}))
	}
}

// Messages that are posted one by one behind others wait for a moment, and are then sent together.
func TestPostsShareDatagrams(t *testing.T) {
	t.Run("second turn", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		l.turn()
		e.post(t, 1, 64)
		l.turn()
		require.Empty(t, l.takeSent(), "there was a post since the turn before")
		l.turn()
		require.Equal(t, []int{3}, l.takeSent())
		l.turn()
		l.turn()
		require.Empty(t, l.takeSent())
		e.post(t, 3, 64)
		l.turn()
		l.turn()
		require.Equal(t, []int{3}, l.takeSent())
	})
	t.Run("empty completion queue", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 5, 64)
		require.Empty(t, l.takeSent())
		var wcs [1]WC
		n, err := e.cq.Poll(wcs[:])
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []int{5}, l.takeSent())
	})
	t.Run("messages", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2*shard.Gather+1, 64)
		require.Equal(t, []int{shard.Gather, shard.Gather}, l.takeSent())
	})
	t.Run("bytes", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2*shard.CoalesceBytes/4096+1, 4096)
		require.Equal(t, []int{shard.CoalesceBytes / 4096, shard.CoalesceBytes / 4096}, l.takeSent())
		e.post(t, 1, shard.CoalesceBytes)
		require.Equal(t, []int{1 + shard.CoalesceBytes/4096}, l.takeSent(), "with what was held")
	})
	t.Run("batch", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		_, err := e.qp.PostSendBatch([]SendWR{
			{Opcode: WRWrite, SGList: []SGE{e.mr.SGE(0, 64)}}, {Opcode: WRWrite, SGList: []SGE{e.mr.SGE(0, 64)}},
		})
		require.NoError(t, err)
		require.Equal(t, []int{4}, l.takeSent())
	})
	t.Run("a WRITE and what tells of it are one message", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 1, 64)
		n, err := e.qp.PostSendBatch([]SendWR{
			{Opcode: WRWrite, SGList: []SGE{e.mr.SGE(0, 64)}}, {Opcode: WRWriteImm, Flags: SendSignaled},
		})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Empty(t, l.takeSent(), "as one that PostSend posts behind others")
		l.turn()
		l.turn()
		require.Equal(t, []int{3}, l.takeSent())
	})
	t.Run("idle goroutine", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		l.clock.Add(int64(turnSpin))
		l.turns <- struct{}{}
		<-l.waits
		require.Equal(t, []int{2}, l.takeSent(), "sent before the goroutine blocks")
		e.post(t, 2, 64)
		require.Equal(t, []int{1, 1}, l.takeSent(), "nobody would send them later")
		e.d.s.Link().Wake()
		<-l.entered
	})
	t.Run("no delay", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 1, 64)
		e.qp.SetNoDelay(true)
		e.post(t, 2, 64)
		require.Equal(t, []int{2, 1}, l.takeSent())
		e.qp.SetNoDelay(false)
		e.post(t, 1, 64)
		require.Empty(t, l.takeSent())
	})
}

// What was posted is sent before the queue pair changes or goes away.
func TestHeldPostsLeave(t *testing.T) {
	t.Run("modify", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		require.NoError(t, e.qp.Modify(QPAttr{State: StateErr}, AttrState))
		require.Equal(t, []int{2}, l.takeSent())
	})
	t.Run("close queue pair", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		require.NoError(t, e.qp.Close())
		require.Equal(t, []int{2}, l.takeSent())
	})
	t.Run("close device", func(t *testing.T) {
		e, l := newTurns(t)
		e.post(t, 2, 64)
		closed := make(chan error)
		go func() { closed <- e.d.Close() }()
		<-e.d.s.Done()
		l.turns <- struct{}{}
		require.NoError(t, <-closed)
		require.Equal(t, []int{2}, l.takeSent())
	})
}

// A device that is polled has no goroutine that would send later.
func TestPollingHoldsNothing(t *testing.T) {
	l := &turnLink{}
	d := openDevice(t, Config{Polling: true, alone: true, WrapLink: func(real link.Link) (link.Link, error) {
		l.Link = real
		return l, nil
	}})
	e := newEnd(t, d, 4096, QPInitAttr{})
	require.NoError(t, e.qp.Connect(RemoteInfo{QPN: 77, GID: ib.GIDFromAddr(loopback4())}, nil))
	e.post(t, 3, 64)
	require.Equal(t, []int{1, 1, 1}, l.takeSent())
}
