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

// A link that fails closes the device; who waits learns why.
func TestLinkFailure(t *testing.T) {
	for name, polling := range map[string]bool{"event": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			var bl *brokenLink
			d := openDevice(t, Config{Polling: polling, WrapLink: func(l link.Link) (link.Link, error) {
				bl = &brokenLink{Link: l}
				return bl, nil
			}})
			e := newEnd(t, d, 100, QPInitAttr{})
			errs := make(chan error)
			go func() {
				var wcs [1]WC
				_, err := e.cq.Wait(context.Background(), wcs[:])
				errs <- err
			}()
			bl.broken.Store(true)
			d.s.Link().Wake()
			err := <-errs
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, errBroken)
			require.ErrorIs(t, e.qp.PostSend(&SendWR{}), errBroken)
			ev, err := d.AsyncEvent(testContext(t))
			require.NoError(t, err)
			require.Equal(t, EventPortError, ev.Type)
			require.False(t, d.Port().Active)
		})
	}
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
			a, b := newEnd(t, openDevice(t, cfg), 4096, QPInitAttr{}), newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 100)
			full.full.Store(true)
			require.NoError(t, a.qp.PostSend(&SendWR{
				// Not to the bytes that write has looked at.
				ID: 9, Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr() + 1024, RKey: b.mr.RKey(),
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
