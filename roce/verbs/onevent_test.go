package verbs

import (
	"slices"
	"sync"
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// A callback comes once for each request, for the completions that were asked for, and not after
// Close.
func TestOnEvent(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	var told []*CQ
	a = a.onRing(t, 32, CQOptions{})
	b = b.onRing(t, 32, CQOptions{OnEvent: func(cq *CQ) { told = append(told, cq) }})
	connect(t, a, b)
	send := func(flags SendFlags) int {
		told = nil
		b.recvs(t, 0, 1)
		a.sends(t, flags, 0, 1)
		a.await(t, f, 1)
		b.await(t, f, 1)
		for _, cq := range told {
			require.Same(t, b.cq, cq)
		}
		return len(told)
	}
	require.Zero(t, send(0), "nobody has asked")
	require.NoError(t, b.cq.RequestNotify(false))
	require.Equal(t, 1, send(0))
	require.Zero(t, send(0), "only once")
	require.NoError(t, b.cq.RequestNotify(true))
	require.Zero(t, send(0), "not solicited")
	require.Equal(t, 1, send(SendSolicited))
	require.NoError(t, b.cq.RequestNotify(true))
	require.NoError(t, b.cq.RequestNotify(false))
	require.Equal(t, 1, send(0))
	require.NoError(t, b.cq.RequestNotify(false))
	require.NoError(t, b.qp.Close())
	require.NoError(t, b.cq.Close())
	require.ErrorIs(t, b.cq.RequestNotify(false), ErrClosed)
	require.ErrorIs(t, a.cq.RequestNotify(false), ErrNoChannel)
}

// The thread that an event wakes may call at once: the lock is free by then.
func TestOnEventWithoutLock(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	told := 0
	a = a.onRing(t, 32, CQOptions{})
	b = b.onRing(t, 32, CQOptions{OnEvent: func(cq *CQ) {
		cq.s.LockAlways()
		cq.s.Unlock()
		told++
	}})
	connect(t, a, b)
	for range 3 {
		require.NoError(t, b.cq.RequestNotify(false))
		b.recvs(t, 0, 1)
		a.sends(t, 0, 0, 1)
		a.await(t, f, 1)
		b.await(t, f, 1)
	}
	require.Equal(t, 3, told)
}

// A program that sleeps on an eventfd is woken by whatever thread has received: there is no other
// goroutine. It sleeps whether it has polled before or not.
func TestOnEventWakesSleeper(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
			require.NoError(t, err)
			defer unix.Close(fd)
			a, b := pair(t, 64, cfg)
			a = a.onRing(t, 32, CQOptions{})
			one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
			b = b.onRing(t, 32, CQOptions{OnEvent: func(*CQ) {
				if n, err := unix.Write(fd, one); n != 8 || err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			}})
			connect(t, a, b)
			for i := range uint64(200) {
				if i%3 == 0 {
					core.Open(b.cq).Progress(1) // as one who polls
				}
				b.recvs(t, i, 1)
				require.NoError(t, b.cq.RequestNotify(false))
				a.sends(t, 0, i, 1)
				var n [8]byte
				_, err := unix.Read(fd, n[:]) // until it comes
				require.NoError(t, err)
				var wcs [2]foreignWC
				require.Equal(t, 1, foreignPoll(core.Open(b.cq).Ring(), wcs[:]))
				require.Equal(t, i, wcs[0].id)
				a.await(t, nil, 1)
			}
		})
	}
}

// Asynchronous events go to the callback: first those that wait, in order, and none of an object
// that was closed.
func TestOnAsyncEvent(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	srq, err := b.pd.CreateSRQ(SRQAttr{MaxWR: 4})
	require.NoError(t, err)
	second, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq, SRQ: srq})
	require.NoError(t, err)
	require.NoError(t, second.ToInit(0))
	require.NoError(t, second.Modify(QPAttr{State: StateErr}, AttrState)) // EventLastWQEReached

	var got []Event
	note := func(e Event) { got = append(got, e) }
	require.NoError(t, core.Open(b.d).OnAsyncEvent(note))
	require.Equal(t, []Event{{Type: EventLastWQEReached, QP: second}}, got, "it has waited")

	// A write to memory that is not ours.
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: 1, RKey: 1,
	}))
	require.Equal(t, WCRemoteAccessErr, a.completion(t, testContext(t)).Status)
	require.Contains(t, got, Event{Type: EventQPAccessError, QP: b.qp})
	n := len(got)
	require.NoError(t, core.Open(b.d).OnAsyncEvent(nil))
	third, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq, SRQ: srq})
	require.NoError(t, err)
	require.NoError(t, third.ToInit(0))
	require.NoError(t, third.Modify(QPAttr{State: StateErr}, AttrState))
	require.Len(t, got, n)
	require.NoError(t, third.Close())
	require.NoError(t, core.Open(b.d).OnAsyncEvent(note))
	require.Len(t, got, n, "the queue pair is gone")
	require.False(t, slices.ContainsFunc(got, func(e Event) bool { return e.QP == third }))

	// So it is with what another shard raises of one that is closed.
	require.NoError(t, second.Close())
	require.NoError(t, srq.Close())
	b.d.async.push(Event{Type: EventSRQLimitReached, SRQ: srq})
	cq, err := b.d.CreateCQ(1, nil)
	require.NoError(t, err)
	require.NoError(t, cq.Close())
	b.d.async.push(Event{Type: EventCQError, CQ: cq})
	require.Len(t, got, n)
	require.ErrorIs(t, core.Open(new(Device)).OnAsyncEvent(nil), ErrClosed)
}

// Closing an object is the end of its events, also when they come at the same time.
func TestOnAsyncEventEndsWithItsObject(t *testing.T) {
	a, b := pair(t, 64, Config{})
	var mu sync.Mutex
	closed := map[*QP]bool{}
	require.NoError(t, core.Open(b.d).OnAsyncEvent(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.QP != nil && closed[e.QP] {
			t.Errorf("%v of a queue pair that is closed", e.Type)
		}
	}))
	for range 50 {
		qa, qb := second(t, a, b)
		require.NoError(t, qa.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: 1, RKey: 1,
		}))
		require.NoError(t, qb.Close())
		mu.Lock()
		closed[qb] = true
		mu.Unlock()
		require.NoError(t, qa.Close())
	}
}
