package verbs

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// Nobody answers: the timers of the engine run though no packet ever comes,
// and though they are started while the device's goroutine sleeps.
func TestTimersWithoutPackets(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "no spin": variants["no spin"], "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{})
			nobody := RemoteInfo{QPN: 77, GID: ib.GIDFromAddr(loopback4())}
			require.NoError(t, e.qp.Connect(nobody, withTimeout(8, 2))) // 1 ms
			require.NoError(t, e.qp.PostSend(&SendWR{ID: 5, Opcode: WRSend, SGList: []SGE{e.mr.SGE(0, 10)}}))
			var wcs [1]WC
			_, err := e.cq.Wait(testContext(t), wcs[:])
			require.NoError(t, err)
			require.EqualValues(t, 5, wcs[0].ID)
			require.Equal(t, WCRetryExcErr, wcs[0].Status)
			c := e.d.Counters()
			require.EqualValues(t, 3, c.Timeouts)
			require.EqualValues(t, 3, c.SentPkts)
		})
	}
}

// brokenLink fails to receive once it is told to.
type brokenLink struct {
	link.Link
	broken atomic.Bool
}

var errBroken = errors.New("cable eaten")

func (l *brokenLink) Recv(b []transport.RxPacket) (int, error) {
	if l.broken.Load() {
		return 0, errBroken
	}
	return l.Link.Recv(b)
}

// brokenSlots is one of several of a device.
type brokenSlots struct {
	*brokenLink
	link.Slotted
	second *brokenLink // what the device has opened
}

func (l *brokenSlots) Another() (link.Link, error) {
	o, err := l.Slotted.Another()
	if err != nil {
		return nil, err
	}
	l.second = &brokenLink{Link: o}
	return &brokenSlots{brokenLink: l.second, Slotted: o.(link.Slotted)}, nil
}

// A link that fails ends the device, as a card that fails does: an event tells, who waits learns
// why, and what was posted completes as flushed, in order, on all queue pairs, also those of shards
// whose link works.
func TestLinkFailure(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}, "2 shards": {Shards: 2},
		"2 shards, polling": {Shards: 2, Polling: true}} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			var l *brokenSlots
			cfg.WrapLink = func(under link.Link) (link.Link, error) {
				l = &brokenSlots{brokenLink: &brokenLink{Link: under}, Slotted: under.(link.Slotted)}
				return l, nil
			}
			d := openDevice(t, cfg)
			b := newEnd(t, openDevice(t, Config{}), 100, QPInitAttr{})
			a := newEnd(t, d, 100, QPInitAttr{})
			connect(t, a, b)
			ends, breaks := []*end{a}, l.brokenLink
			if cfg.Shards > 1 {
				ends = append(ends, endOnVector(t, d, 1, 100, QPInitAttr{}))
				breaks = l.second
			}
			ch, err := d.CreateCompletionChannel()
			require.NoError(t, err)
			armed, err := d.CreateCQ(10, &CQOptions{Channel: ch})
			require.NoError(t, err)
			srq, err := a.pd.CreateSRQ(SRQAttr{})
			require.NoError(t, err)
			shared, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: armed, SRQ: srq})
			require.NoError(t, err)
			require.NoError(t, shared.ToInit(0))
			require.NoError(t, a.qp.PostRecv(&RecvWR{ID: 1, SGList: []SGE{a.mr.SGE(0, 10)}}))
			require.NoError(t, a.qp.PostRecv(&RecvWR{ID: 2, SGList: []SGE{a.mr.SGE(0, 10)}}))
			// The peer has no receive, and asks to wait.
			require.NoError(t, a.qp.PostSend(&SendWR{ID: 3, Opcode: WRSend, SGList: []SGE{a.mr.SGE(0, 10)}}))
			errs := make(chan error)
			waits := 0
			wait := func(f func() error) {
				waits++
				go func() { errs <- f() }()
			}
			for _, e := range ends[1:] {
				wait(func() error {
					var wcs [1]WC
					_, err := e.cq.Wait(ctx, wcs[:])
					return err
				})
			}
			wait(func() error { _, err := ch.Get(ctx); return err })
			breaks.broken.Store(true)
			breaks.Wake()
			var got []WC
			for wcs := make([]WC, 2); ; {
				n, err := a.cq.Wait(ctx, wcs)
				got = append(got, wcs[:n]...)
				if err != nil {
					require.ErrorIs(t, err, ErrClosed)
					require.ErrorIs(t, err, errBroken)
					break
				}
			}
			require.Len(t, got, 3)
			for i, id := range []uint64{3, 1, 2} { // the send queue first
				require.Equal(t, id, got[i].ID)
				require.Equal(t, WCFlushErr, got[i].Status)
				require.Equal(t, a.qp.Num(), got[i].QPN)
			}
			for range waits {
				require.ErrorIs(t, <-errs, errBroken)
			}
			require.Equal(t, StateErr, a.qp.State())
			require.ErrorIs(t, a.qp.PostSend(&SendWR{}), errBroken)
			require.ErrorIs(t, a.qp.PostRecv(&RecvWR{}), errBroken)
			for i, want := range []Event{{Type: EventDeviceFatal}, {Type: EventLastWQEReached, QP: shared}} {
				ev, err := d.AsyncEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, want, ev, i)
			}
			_, err = d.AsyncEvent(ctx)
			require.ErrorIs(t, err, errBroken)
			require.False(t, d.Port().Active)
			require.NoError(t, shared.Close())
			require.NoError(t, a.qp.Close())
			require.NoError(t, a.cq.Close())
			_, err = a.cq.Poll(make([]WC, 1))
			require.ErrorIs(t, err, ErrClosed)
			require.NoError(t, d.Close())
		})
	}
}

// A queue that was armed has an event for what is flushed; and what had completed before the end is
// still there.
func TestLinkFailureTellsChannel(t *testing.T) {
	var l *brokenLink
	d := openDevice(t, Config{WrapLink: func(under link.Link) (link.Link, error) {
		l = &brokenLink{Link: under}
		return l, nil
	}})
	ch, err := d.CreateCompletionChannel()
	require.NoError(t, err)
	cq, err := d.CreateCQ(10, &CQOptions{Channel: ch})
	require.NoError(t, err)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	buf := make([]byte, 100)
	mr, err := pd.RegisterMR(buf, AccessAll, nil)
	require.NoError(t, err)
	qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, qp.ToInit(0))
	require.NoError(t, qp.PostRecv(&RecvWR{ID: 7, SGList: []SGE{mr.SGE(0, 100)}}))
	require.NoError(t, cq.RequestNotify(true))
	l.broken.Store(true)
	l.Wake()
	got, err := ch.Get(testContext(t))
	require.NoError(t, err)
	require.Same(t, cq, got)
	var wcs [2]WC
	n, err := cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 7, wcs[0].ID)
	require.Equal(t, WCFlushErr, wcs[0].Status)
	_, err = ch.Get(testContext(t))
	require.ErrorIs(t, err, errBroken)
}

// meanwhile is a context that does something when somebody begins to wait for it.
type meanwhile struct {
	context.Context
	f func()
}

func (m *meanwhile) Done() <-chan struct{} {
	if f := m.f; f != nil {
		m.f = nil
		f()
	}
	return m.Context.Done()
}

// Who already waits when the link breaks learns of what was flushed, too, before the end.
func TestLinkFailureTellsWaiter(t *testing.T) {
	var l *brokenLink
	d := openDevice(t, Config{WrapLink: func(under link.Link) (link.Link, error) {
		l = &brokenLink{Link: under}
		return l, nil
	}})
	ch, err := d.CreateCompletionChannel()
	require.NoError(t, err)
	cq, err := d.CreateCQ(10, &CQOptions{Channel: ch})
	require.NoError(t, err)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, qp.ToInit(0))
	require.NoError(t, qp.PostRecv(&RecvWR{}))
	require.NoError(t, cq.RequestNotify(false))
	got, err := ch.Get(&meanwhile{testContext(t), func() {
		l.broken.Store(true)
		l.Wake()
		<-d.s.Done()
		d.s.Barrier()
		<-ch.sig.C() // so that what it finds is the end
	}})
	require.NoError(t, err)
	require.Same(t, cq, got)
}

// A device at rest does nothing at all.
func TestIdleDeviceSleeps(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(itoa(shards)+" shards", func(t *testing.T) {
			var waits atomic.Int64
			cfg := Config{Shards: shards, WrapLink: func(l link.Link) (link.Link, error) {
				return &countingLink{Link: l, Slotted: l.(link.Slotted), waits: &waits}, nil
			}}
			da, db := openDevice(t, cfg), openDevice(t, cfg)
			for v := range shards {
				a, b := endOnVector(t, da, v, 4096, QPInitAttr{}), endOnVector(t, db, v, 4096, QPInitAttr{})
				connect(t, a, b)
				write(t, a, b, 4096)
			}
			// All go to sleep without bound once their timers are over; the counter
			// moves for nothing else.
			for ctx := testContext(t); waits.Load() != int64(2*shards); runtime.Gosched() {
				require.NoError(t, ctx.Err())
			}
		})
	}
}

// countingLink counts the goroutines that wait without a timeout.
type countingLink struct {
	link.Link
	link.Slotted
	waits *atomic.Int64
}

func (l *countingLink) Another() (link.Link, error) {
	o, err := l.Slotted.Another()
	if err != nil {
		return nil, err
	}
	return &countingLink{Link: o, Slotted: o.(link.Slotted), waits: l.waits}, nil
}

func (l *countingLink) Wait(timeout time.Duration) error {
	if timeout < 0 {
		l.waits.Add(1)
		defer l.waits.Add(-1)
	}
	return l.Link.Wait(timeout)
}

// fullLink takes no packets from when it is told to until there is room, which Send finds out. It
// tells who waits then.
type fullLink struct {
	link.Link
	full   atomic.Bool
	room   atomic.Bool
	asleep chan struct{} // of one place: who waits is told of, also if nobody looks at that moment
}

func (l *fullLink) Blocked() bool { return l.full.Load() || l.Link.Blocked() }

func (l *fullLink) Send(b []transport.TxPacket) {
	if l.room.Load() {
		l.full.Store(false)
	}
	if !l.full.Load() {
		l.Link.Send(b)
	}
}

func (l *fullLink) Wait(timeout time.Duration) error {
	if l.full.Load() {
		select {
		case l.asleep <- struct{}{}:
		default:
		}
	}
	return l.Link.Wait(timeout)
}

// A network that takes no more keeps no goroutine awake: it waits until there is room.
func TestFullLinkSleeps(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "no spin": variants["no spin"]} {
		t.Run(name, func(t *testing.T) {
			full := &fullLink{asleep: make(chan struct{}, 1)}
			cfg.WrapLink = func(l link.Link) (link.Link, error) { full.Link = l; return full, nil }
			a, b := newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{}),
				newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 100)
			full.full.Store(true)
			require.NoError(t, a.qp.PostSend(&SendWR{
				// Not to the bytes that write has looked at.
				ID: 9, Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 100)},
				RemoteAddr: b.mr.Addr() + 1024, RKey: b.mr.RKey(),
			}))
			for ctx, n := testContext(t), 0; n < 3; n++ {
				full.Wake()
				select {
				case <-full.asleep:
				case <-ctx.Done():
					t.Fatal("the device does not sleep")
				}
			}
			full.room.Store(true)
			full.Wake()
			require.EqualValues(t, 9, a.wait(t, testContext(t)).ID)
		})
	}
}
