package verbs

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// wireTap keeps what is sent instead of sending it.
type wireTap struct {
	link.Link
	packets []transport.RxPacket
}

func (l *wireTap) Send(batch []transport.TxPacket) {
	for i := range batch {
		p := &batch[i]
		l.packets = append(l.packets, transport.RxPacket{
			Src: p.Path.Src, Dst: p.Path.Dst, HopLimit: 64, Data: append(p.AppendTo(nil), 0, 0, 0, 0),
		})
	}
}

// newGather returns an event-driven device whose goroutine goes round by turns,
// and the packets of n requests to it.
func newGather(t *testing.T, n int, op WROpcode) (*turnLink, []transport.RxPacket) {
	l, p, _ := newGatherEnd(t, n, op)
	return l, p
}

// newGatherEnd is newGather for tests that need the end itself.
func newGatherEnd(t *testing.T, n int, op WROpcode) (*turnLink, []transport.RxPacket, *end) {
	e, l := newTurnEnd(t)
	tap := &wireTap{}
	q := newEnd(t, openDevice(t,
		Config{Polling: true, alone: true, Tuning: wholeWindow, WrapLink: func(real link.Link) (link.Link, error) {
			tap.Link = real
			return tap, nil
		}}), 1<<16, QPInitAttr{})
	connect(t, e, q, withMTU(ib.MTU1024))
	for range n {
		require.NoError(t, q.qp.PostSend(&SendWR{
			Opcode: op, SGList: []SGE{q.mr.SGE(0, 64)}, RemoteAddr: e.mr.Addr(), RKey: e.mr.RKey(),
		}))
	}
	require.Len(t, tap.packets, n)
	return l, tap.packets, e
}

// give makes packets what the next turn receives, and lets it happen.
func (l *turnLink) give(p []transport.RxPacket) {
	l.mu.Lock()
	l.feed = append(l.feed, p)
	l.mu.Unlock()
	l.turn()
}

// What is at hand in the link is handled before any of it is acknowledged.
func TestAcksGather(t *testing.T) {
	t.Run("until the link is idle", func(t *testing.T) {
		l, p := newGather(t, 6, WRWrite)
		l.give(p[:1])
		l.give(p[1:4])
		l.give(p[4:6])
		require.Empty(t, l.takeSent())
		l.turn()
		require.Equal(t, []int{1}, l.takeSent(), "one acknowledgement of all")
		l.turn()
		require.Empty(t, l.takeSent())
	})
	t.Run("bounded", func(t *testing.T) {
		l, p := newGather(t, 2*shard.Gather, WRWrite)
		for i := range p {
			l.give(p[i : i+1])
		}
		require.Equal(t, []int{1, 1}, l.takeSent(), "though there always was more")
	})
	t.Run("nothing else waits", func(t *testing.T) {
		l, p := newGather(t, 2, WRRead)
		l.give(p[:1])
		require.Equal(t, []int{1}, l.takeSent())
		l.give(p[1:])
		require.Equal(t, []int{1}, l.takeSent())
	})
	t.Run("no gap either", func(t *testing.T) {
		l, p := newGather(t, 3, WRWrite)
		l.give(p[:1])
		l.give(p[2:])
		require.Equal(t, []int{2}, l.takeSent(), "an acknowledgement and a NAK")
	})
}

// What ends a queue pair comes after the acknowledgements that are being gathered:
// the application may end it because of what they acknowledge.
func TestGatheredBeforeTheEnd(t *testing.T) {
	for name, end := range map[string]func(e *end) error{
		"close": func(e *end) error { return e.qp.Close() },
		"error": func(e *end) error { return e.qp.Modify(QPAttr{State: StateErr}, AttrState) },
		"reset": func(e *end) error { return e.qp.Modify(QPAttr{State: StateReset}, AttrState) },
	} {
		t.Run(name, func(t *testing.T) {
			l, p, e := newGatherEnd(t, 1, WRWrite)
			l.give(p)
			require.Empty(t, l.takeSent())
			require.NoError(t, end(e))
			require.Equal(t, []int{1}, l.takeSent())
		})
	}
}
