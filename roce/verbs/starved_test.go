package verbs

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// guardedLink notes what one goroutine does with the link.
type guardedLink struct {
	link.Link
	t       *testing.T
	ctx     context.Context
	s       atomic.Pointer[shard.Shard]
	program string // the goroutine; set before s
	sends   atomic.Int64
}

// goroutine names the calling one.
func goroutine() string {
	var b [64]byte
	name, _, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte(" ["))
	return string(name)
}

func (l *guardedLink) byProgram() bool { return l.s.Load() != nil && goroutine() == l.program }

func (l *guardedLink) Send(batch []transport.TxPacket) {
	if l.byProgram() {
		l.sends.Add(1)
	}
	l.Link.Send(batch)
}

// Wake is not called with the lock of the shard held: others can have it meanwhile.
func (l *guardedLink) Wake() {
	if l.byProgram() {
		free := make(chan struct{})
		go func() {
			l.s.Load().LockAlways()
			l.s.Load().Unlock()
			close(free)
		}()
		select {
		case <-free:
		case <-l.ctx.Done():
			l.t.Error("somebody was woken with the lock held")
		}
	}
	l.Link.Wake()
}

func starvedPair(t *testing.T, cfg Config) (a, b *end, l *guardedLink) {
	l = &guardedLink{t: t, ctx: testContext(t), program: goroutine()}
	cfg.WrapLink = func(under link.Link) (link.Link, error) { l.Link = under; return l, nil }
	a = newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{})
	b = newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{}).onRing(t, 512, CQOptions{})
	connect(t, a, b, withTimeout(20, 7))
	b.d.s.Starve()
	return a, b, l
}

// A program that gets little of the CPUs may lose the one that it has in any call, for long. So it
// does nothing that takes the lock for long, or that makes others run while it has the lock: what
// it posts is sent by the goroutine.
func TestStarvedProgramOnlyPosts(t *testing.T) {
	ctx := testContext(t)
	a, b, l := starvedPair(t, Config{})
	l.s.Store(b.d.s)
	wr := SendWR{Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{b.mr.SGE(0, 4096)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()}
	for range 20 {
		for range 3 * shard.Gather { // more than wait otherwise
			require.NoError(t, b.qp.PostSend(&wr))
		}
		core.Open(b.cq).Progress()
		_, err := b.qp.PostSendBatch([]SendWR{wr, wr})
		require.NoError(t, err)
		b.await(t, nil, 3*shard.Gather+2) // without another call
		b.qp.SetNoDelay(true)
		require.NoError(t, b.qp.PostSend(&wr))
		b.await(t, nil, 1)
		b.qp.SetNoDelay(false)
		a.write(t, b)
		a.wait(t, ctx)
	}
	require.Zero(t, l.sends.Load(), "the program has sent by itself")
	require.Zero(t, b.d.Counters().Timeouts)
}

// If it was left the work it is relieved of it, and is not given it again.
func TestStarvedProgramIsRelieved(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			a, b, _ := foreignPair(t, cfg)
			b.progressUntil(t, b.d.s.Polled)
			b.d.s.Starve()
			core.Open(b.cq).Progress()
			for range 1000 {
				require.True(t, b.d.s.Background())
				core.Open(b.cq).Progress()
			}
			a.write(t, b)
			a.await(t, nil, 1)
			require.Zero(t, a.d.Counters().Timeouts)
		})
	}
}
