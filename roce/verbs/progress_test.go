package verbs

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// countedLink counts the calls that sent something. Its clock is slow: a busy machine, or the race
// detector, makes pauses that are none.
type countedLink struct {
	link.Link
	sends, packets atomic.Int64
}

func (l *countedLink) Now() int64 { return l.Link.Now() / 50 }

func (l *countedLink) Send(batch []transport.TxPacket) {
	if len(batch) > 0 {
		l.sends.Add(1)
		l.packets.Add(int64(len(batch)))
	}
	l.Link.Send(batch)
}

// foreignPair is two ends with rings; the link of the second is counted.
func foreignPair(t *testing.T, cfg Config) (a, b *end, l *countedLink) {
	l = &countedLink{}
	cfgB := cfg
	cfgB.WrapLink = func(under link.Link) (link.Link, error) { l.Link = under; return l, nil }
	a = newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{}).onRing(t, 512, CQOptions{})
	b = newEnd(t, openDevice(t, cfgB), 4096, QPInitAttr{}).onRing(t, 512, CQOptions{})
	connect(t, a, b, withTimeout(20, 7))
	return a, b, l
}

// progressUntil polls a ring that has nothing.
func (e *end) progressUntil(t *testing.T, so func() bool) {
	for ctx := testContext(t); !so(); {
		e.d.s.NeverMissed() // a busy machine lets nobody poll for long
		core.Open(e.cq).Progress(1)
		require.NoError(t, ctx.Err())
	}
}

// A program that polls all the time is left the work.
func TestProgressReceives(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			a, b, _ := foreignPair(t, cfg)
			b.progressUntil(t, b.d.s.Polled)
			a.write(t, b)
			for foreignPoll(core.Open(a.cq).Ring(), make([]foreignWC, 1)) == 0 {
				core.Open(b.cq).Progress(1)
				core.Open(a.cq).Progress(1)
			}
		})
	}
}

// One that then looks at memory, and not at its queue, gets what a peer writes there, and not
// only when the timer looks after a device that nobody polls. It has to poll for longer after that.
func TestMemoryIsPolled(t *testing.T) {
	a, b, _ := foreignPair(t, Config{})
	ctx := testContext(t)
	// Memory that the race detector does not know: that a peer writes to it is what is tested.
	bufA, mrA, err := a.pd.AllocBuffer(4096, AccessAll)
	require.NoError(t, err)
	bufB, mrB, err := b.pd.AllocBuffer(4096, AccessAll)
	require.NoError(t, err)
	word := (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(bufB.Bytes())))
	source := (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(bufA.Bytes())))
	for n := uint64(1); b.d.s.Proof() == 0; n++ {
		b.progressUntil(t, b.d.s.Polled)
		source.Store(n)
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{mrA.SGE(0, 8)}, RemoteAddr: mrB.Addr(),
			RKey: mrB.RKey(),
		}))
		for word.Load() != n {
			require.NoError(t, ctx.Err(), "nobody receives")
		}
		a.await(t, nil, 1)
	}
	require.GreaterOrEqual(t, b.d.s.Proof(), int64(100*time.Microsecond))
}

// What a program posts that receives by itself leaves in the call: nobody else would send it later.
func TestReceiverSends(t *testing.T) {
	a, b, l := foreignPair(t, Config{})
	b.progressUntil(t, b.d.s.Polled)
	b.d.s.NeverTakeOver()
	for range 50 {
		a.recvs(t, 0, 2)
		for range 2 {
			sent := l.packets.Load()
			b.sends(t, 0, 0, 1)
			require.Greater(t, l.packets.Load(), sent, "it has left when the call returns")
		}
		b.await(t, nil, 2)
		a.await(t, nil, 2)
	}
}

// scriptedLink hands up packets that never came, each in a look of its own.
type scriptedLink struct {
	link.Link
	now    atomic.Int64
	script [][]byte // an entry that is nil is a look that finds nothing; under the lock of the receiving side
}

// Now lets a little time pass, less than a look takes: nobody seems to starve.
func (l *scriptedLink) Now() int64 { return l.now.Add(100) }

func (l *scriptedLink) Recv(batch []transport.RxPacket) (int, error) {
	if len(l.script) == 0 {
		return 0, nil
	}
	data := l.script[0]
	l.script = l.script[1:]
	if data == nil {
		return 0, nil
	}
	batch[0] = transport.RxPacket{Data: data}
	return 1, nil
}

// A call that has received an answer looks for the request that follows it, of a program that looks
// at memory then: as far as that comes soon.
func TestLooksOnForRequest(t *testing.T) {
	answer, request := []byte{byte(ib.RCAcknowledge)}, []byte{byte(ib.RCWriteOnly)}
	far := make([][]byte, 1000)
	for name, c := range map[string]struct {
		script [][]byte
		missed bool
		left   func(int) bool
	}{
		"request":        {[][]byte{request, nil, request}, true, func(n int) bool { return n == 2 }},
		"nothing missed": {[][]byte{answer, nil, request}, false, func(n int) bool { return n == 2 }},
		"answer, request": {[][]byte{answer, nil, answer, nil, request, nil, nil}, true,
			func(n int) bool { return n == 2 }},
		"far away": {append([][]byte{answer}, far...), true, func(n int) bool { return n > 100 && n < 1000 }},
	} {
		t.Run(name, func(t *testing.T) {
			l := &scriptedLink{}
			cfg := Config{Polling: true,
				WrapLink: func(under link.Link) (link.Link, error) { l.Link = under; return l, nil }}
			e := newEnd(t, openDevice(t, cfg), 64, QPInitAttr{}).onRing(t, 16, CQOptions{})
			e.progressUntil(t, e.d.s.Polled)
			e.d.s.NeverTakeOver()
			if c.missed {
				e.d.s.Missed()
			}
			e.d.s.Receiving(func() { l.script = c.script })
			core.Open(e.cq).Progress(1)
			e.d.s.Receiving(func() { require.True(t, c.left(len(l.script)), "%d are left", len(l.script)) })
		})
	}
}

// What Progress costs, by who receives.
func BenchmarkProgress(b *testing.B) {
	for name, cfg := range map[string]Config{"goroutine": {}, "caller": {Polling: true}} {
		b.Run(name, func(b *testing.B) {
			e := newEnd(b, openDevice(b, cfg), 64, QPInitAttr{}).onRing(b, 16, CQOptions{})
			if cfg.Polling {
				for !e.d.s.Polled() {
					core.Open(e.cq).Progress(1)
				}
			}
			for b.Loop() {
				core.Open(e.cq).Progress(1)
				if !cfg.Polling {
					e.d.s.NeverProven()
				}
			}
		})
	}
}

// What a look at the ring costs, in Go.
func BenchmarkRingPoll(b *testing.B) {
	e := newEnd(b, openDevice(b, Config{}), 64, QPInitAttr{}).onRing(b, 16, CQOptions{})
	base, wcs := core.Open(e.cq).Ring(), make([]foreignWC, 16)
	for b.Loop() {
		foreignPoll(base, wcs)
	}
}
