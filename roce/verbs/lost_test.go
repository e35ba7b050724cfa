package verbs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// vanishingBytes is more than a batch of packets.
const vanishingBytes = 1 << 21

// vanishing is mapped memory that can be made to go away: the ways in which it does.
var vanishing = map[string]func(t *testing.T) (buf []byte, vanish func()){
	"truncated": func(t *testing.T) ([]byte, func()) {
		f, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(vanishingBytes))
		b, err := unix.Mmap(int(f.Fd()), 0, vanishingBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)); require.NoError(t, f.Close()) })
		return b, func() { require.NoError(t, f.Truncate(int64(os.Getpagesize()))) }
	},
	// As unmapped memory, which somebody else might map in between.
	"taken away": func(t *testing.T) ([]byte, func()) {
		b, err := unix.Mmap(-1, 0, vanishingBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
		return b, func() { require.NoError(t, unix.Mprotect(b[os.Getpagesize():], unix.PROT_NONE)) }
	},
}

// lostFrom is an offset from which on the memory is gone, behind some that stays.
var lostFrom = os.Getpagesize()

// lostPairs are the devices that the tests below run on.
var lostPairs = map[string]func(t *testing.T) (a, b *end){
	"sim":     func(t *testing.T) (a, b *end) { return simPair(t, sim.New(sim.Config{Seed: 1}), 1<<16) },
	"event":   func(t *testing.T) (a, b *end) { return pair(t, 1<<16, Config{}) },
	"polling": func(t *testing.T) (a, b *end) { return pair(t, 1<<16, Config{Polling: true}) },
	"no offload": func(t *testing.T) (a, b *end) {
		return pair(t, 1<<16, Config{UDP: udp.Options{DisableGSO: true, DisableGRO: true}})
	},
}

// second connects another pair of queue pairs of the same devices.
func second(t *testing.T, a, b *end) (qa, qb *QP) {
	for _, e := range []*end{a, b} {
		qp, err := e.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: e.cq})
		require.NoError(t, err)
		if e == a {
			qa = qp
		} else {
			qb = qp
		}
	}
	require.NoError(t, qa.Connect(qb.LocalInfo(0), nil))
	require.NoError(t, qb.Connect(qa.LocalInfo(0), nil))
	return qa, qb
}

// completion waits for one on either device, where the work is done for both.
func (e *end) completion(t *testing.T, ctx context.Context) WC {
	var wcs [1]WC
	_, err := e.cq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	return wcs[0]
}

// eachLost runs f for each link and each way to lose memory; with -short for each way once.
func eachLost(t *testing.T, f func(t *testing.T, a, b *end, buf []byte, vanish func())) {
	for link, open := range lostPairs {
		for way, mapped := range vanishing {
			t.Run(link+"/"+way, func(t *testing.T) {
				if testing.Short() && (link != "sim" || way != "truncated") &&
					(link != "event" || way != "taken away") {
					t.Skip("-short: each way to lose memory on one link")
				}
				buf, vanish := mapped(t)
				a, b := open(t)
				f(t, a, b, buf, vanish)
			})
		}
	}
}

// progress makes a device that polls take part, which nothing else does for a passive side.
func (e *end) serve(t *testing.T) {
	if e.d.Background() || e.d.s.Mode() == shard.Driven {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			e.d.s.Poll(shard.Never)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// A peer asks for memory that is not there any more: its request fails, and so does
// this side's queue pair; the process and the other queue pairs live.
func TestPeerMeetsLostMemory(t *testing.T) {
	for name, op := range map[string]struct {
		opcode WROpcode
		bytes  int
	}{
		"write": {WRWrite, 100}, "long write": {WRWrite, 1 << 16}, "write with immediate": {WRWriteImm, 100},
		"read": {WRRead, 100}, "long read": {WRRead, 1 << 16},
		"fetch and add": {WRFetchAdd, 8}, "compare and swap": {WRCompareSwap, 8}, "atomic write": {WRAtomicWrite, 8},
	} {
		t.Run(name, func(t *testing.T) {
			eachLost(t, func(t *testing.T, a, b *end, buf []byte, vanish func()) {
				ctx := testContext(t)
				mr, err := b.pd.RegisterMR(buf, AccessAll, nil)
				require.NoError(t, err)
				qa, qb := second(t, a, b)
				require.NoError(t, b.qp.PostRecv(&RecvWR{ID: 9, SGList: []SGE{b.mr.SGE(0, 100)}}))
				b.serve(t)
				vanish()
				wr := SendWR{ID: 1, Opcode: op.opcode, Flags: SendSignaled, RKey: mr.RKey(),
					RemoteAddr: mr.Addr() + uint64(lostFrom) - 8, SGList: []SGE{a.mr.SGE(0, op.bytes)}}
				if op.bytes == 8 {
					wr.RemoteAddr += 8
				}
				require.NoError(t, a.qp.PostSend(&wr))
				require.Equal(t, WCRemoteAccessErr, a.completion(t, ctx).Status)
				require.Equal(t, StateErr, b.qp.State())
				require.True(t, mr.Lost())
				require.EqualValues(t, 1, b.d.Counters().MemoryFaults)
				recv := b.completion(t, ctx)
				require.EqualValues(t, 9, recv.ID)
				if op.opcode == WRWriteImm {
					require.Equal(t, transport.WCLocalAccessErr, recv.Status)
				} else {
					require.Equal(t, WCFlushErr, recv.Status)
					ev, err := b.d.AsyncEvent(ctx)
					require.NoError(t, err)
					require.Equal(t, EventQPAccessError, ev.Type)
					require.Equal(t, b.qp, ev.QP)
				}
				// What is still there of the region is refused, too; other memory is not.
				wr = SendWR{ID: 2, Opcode: WRWrite, Flags: SendSignaled, RKey: b.mr.RKey(),
					RemoteAddr: b.mr.Addr(), SGList: []SGE{a.mr.SGE(0, 1<<16)}}
				require.NoError(t, qa.PostSend(&wr))
				require.Equal(t, WCSuccess, a.completion(t, ctx).Status)
				wr.RKey, wr.RemoteAddr, wr.SGList = mr.RKey(), mr.Addr(), []SGE{a.mr.SGE(0, 8)}
				require.NoError(t, qa.PostSend(&wr))
				require.Equal(t, WCRemoteAccessErr, a.completion(t, ctx).Status)
				require.Equal(t, StateErr, qb.State())
				require.EqualValues(t, 1, b.d.Counters().MemoryFaults)
				require.NoError(t, mr.Close())
			})
		})
	}
}

// A message comes in for a receive request whose memory is not there any more.
func TestReceiveIntoLostMemory(t *testing.T) {
	for name, n := range map[string]int{"short": 100, "long": 1 << 16} {
		t.Run(name, func(t *testing.T) {
			eachLost(t, func(t *testing.T, a, b *end, buf []byte, vanish func()) {
				ctx := testContext(t)
				mr, err := b.pd.RegisterMR(buf, AccessAll, nil)
				require.NoError(t, err)
				require.NoError(t, b.qp.PostRecv(&RecvWR{ID: 9, SGList: []SGE{mr.SGE(lostFrom-8, 1<<16)}}))
				b.serve(t)
				vanish()
				require.NoError(t,
					a.qp.PostSend(&SendWR{ID: 1, Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)}}))
				require.Equal(t, WCRemoteOpErr, a.completion(t, ctx).Status)
				recv := b.completion(t, ctx)
				require.Equal(t, WCLocalProtErr, recv.Status)
				require.EqualValues(t, 9, recv.ID)
				require.True(t, mr.Lost())
			})
		})
	}
}

// The memory of a send request is not there any more, or that of its result.
func TestSendFromLostMemory(t *testing.T) {
	for name, op := range map[string]struct {
		opcode WROpcode
		bytes  int
		pieces int
	}{
		"write": {WRWrite, 100, 1}, "long write": {WRWrite, 1 << 16, 1}, "write of many pieces": {WRWrite, 100, 6},
		"send": {WRSend, 100, 1}, "long send": {WRSend, 1 << 16, 1}, "atomic write": {WRAtomicWrite, 8, 1},
		"read": {WRRead, 100, 1}, "long read": {WRRead, 1 << 16, 1}, "fetch and add": {WRFetchAdd, 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachLost(t, func(t *testing.T, a, b *end, buf []byte, vanish func()) {
				ctx := testContext(t)
				mr, err := a.pd.RegisterMR(buf, AccessAll, nil)
				require.NoError(t, err)
				qp, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxSendSGE: 8}})
				require.NoError(t, err)
				peer, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq})
				require.NoError(t, err)
				require.NoError(t, qp.Connect(peer.LocalInfo(0), nil))
				require.NoError(t, peer.Connect(qp.LocalInfo(0), nil))
				require.NoError(t, peer.PostRecv(&RecvWR{ID: 9, SGList: []SGE{b.mr.SGE(0, 1<<16)}}))
				b.serve(t)
				vanish()
				good := SendWR{ID: 1, Opcode: WRWrite, Flags: SendSignaled, RKey: b.mr.RKey(),
					RemoteAddr: b.mr.Addr(), SGList: []SGE{a.mr.SGE(0, 1<<15)}}
				bad := good
				bad.ID, bad.Opcode = 2, op.opcode
				from := lostFrom - 8
				if op.bytes == 8 {
					from = lostFrom
				}
				bad.SGList = nil
				for i := range op.pieces - 1 {
					bad.SGList = append(bad.SGList, a.mr.SGE(i, 4))
				}
				bad.SGList = append(bad.SGList, mr.SGE(from, op.bytes-4*(op.pieces-1)))
				behind := good
				behind.ID = 3
				n, err := qp.PostSendBatch([]SendWR{good, bad, behind})
				require.NoError(t, err)
				require.Equal(t, 3, n)
				for i, want := range []WCStatus{WCSuccess, WCLocalProtErr, WCFlushErr} {
					wc := a.completion(t, ctx)
					require.EqualValues(t, i+1, wc.ID)
					require.Equal(t, want, wc.Status, "request %d", i+1)
				}
				require.Equal(t, StateErr, qp.State())
				require.True(t, mr.Lost())
				require.NotZero(t, a.d.Counters().MemoryFaults)
				require.Zero(t, b.d.Counters().MemoryFaults)
				// Others go on, without a timeout, but not with that region.
				require.NoError(t, a.qp.PostSend(&good))
				require.Equal(t, WCSuccess, a.completion(t, ctx).Status)
				good.SGList = []SGE{mr.SGE(0, 8)}
				require.NoError(t, a.qp.PostSend(&good))
				wc := a.completion(t, ctx)
				require.Equal(t, WCLocalProtErr, wc.Status)
				require.EqualValues(t, mem.FaultMemory, wc.VendorErr)
			})
		})
	}
}

// Packets of other queue pairs in the same batch leave as ever.
func TestLostMemoryAmongOthers(t *testing.T) {
	for way, mapped := range vanishing {
		t.Run(way, func(t *testing.T) {
			buf, vanish := mapped(t)
			f := sim.New(sim.Config{Seed: 1})
			a, b := simPair(t, f, 1<<16)
			ctx := testContext(t)
			mr, err := a.pd.RegisterMR(buf, AccessAll, nil)
			require.NoError(t, err)
			// The requests are begun in SQD and leave together when that ends.
			q2, _ := second(t, a, b)
			q3, _ := second(t, a, b)
			vanish()
			wr := SendWR{ID: 1, Opcode: WRWrite, Flags: SendSignaled, RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr()}
			before := f.Now()
			require.NoError(t, a.d.do(func(now int64) error {
				for i, x := range []struct {
					qp  *QP
					sge SGE
				}{{a.qp, a.mr.SGE(0, 1<<14)}, {q2, mr.SGE(0, 1<<14)}, {q3, a.mr.SGE(0, 1<<14)}} {
					wr.ID, wr.SGList = uint64(i), []SGE{x.sge}
					require.NoError(t, x.qp.t.PostSend(now, engineSend(&wr)))
				}
				return nil
			}))
			got := map[uint64]WCStatus{}
			for range 3 {
				wc := a.completion(t, ctx)
				got[wc.ID] = wc.Status
			}
			require.Equal(t, map[uint64]WCStatus{0: WCSuccess, 1: WCLocalProtErr, 2: WCSuccess}, got)
			require.Less(t, f.Now()-before, int64(time.Millisecond), "nothing had to be sent again")
			require.Zero(t, a.d.Counters().RetransmittedPkts)
		})
	}
}

// What the application asks for itself is an error.
func TestTouchLostMemory(t *testing.T) {
	for way, mapped := range vanishing {
		t.Run(way, func(t *testing.T) {
			buf, vanish := mapped(t)
			a, b := simPair(t, sim.New(sim.Config{Seed: 1}), 1<<16)
			inline, err := a.pd.RegisterMR(buf, AccessAll, nil)
			require.NoError(t, err)
			read, err := b.pd.RegisterMR(buf, AccessAll, nil)
			require.NoError(t, err)
			qp, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxInline: 64}})
			require.NoError(t, err)
			require.NoError(t, qp.Connect(b.qp.LocalInfo(0), nil))
			vanish()
			wr := SendWR{Opcode: WRSend, Flags: SendInline, SGList: []SGE{inline.SGE(lostFrom, 10)}}
			for range 2 {
				require.ErrorIs(t, qp.PostSend(&wr), mem.FaultMemory)
				require.True(t, inline.Lost())
				for _, f := range []func([]byte, int64) (int, error){read.ReadAt, read.WriteAt} {
					n, err := f(make([]byte, 10), int64(lostFrom))
					require.ErrorIs(t, err, mem.FaultMemory)
					require.Zero(t, n)
				}
				require.True(t, read.Lost())
			}
		})
	}
}

// On the unreliable transports nobody tells the peer. A message that was not sent had
// its completion when it was made, so that an event tells of it.
func TestUnreliableLostMemory(t *testing.T) {
	for name, typ := range map[string]ib.Transport{"UC": UC, "UD": UD} {
		for way, mapped := range vanishing {
			t.Run(name+"/"+way, func(t *testing.T) {
				buf, vanish := mapped(t)
				f := sim.New(sim.Config{Seed: 1})
				a, b := simPair(t, f, 1<<16)
				ctx := testContext(t)
				lost, err := b.pd.RegisterMR(buf, AccessAll, nil)
				require.NoError(t, err)
				mine, err := a.pd.RegisterMR(buf, AccessAll, nil)
				require.NoError(t, err)
				qa, err := a.pd.CreateQP(QPInitAttr{Type: typ, SendCQ: a.cq})
				require.NoError(t, err)
				qb, err := b.pd.CreateQP(QPInitAttr{Type: typ, SendCQ: b.cq})
				require.NoError(t, err)
				wr := SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 100)}}
				if typ == UD {
					require.NoError(t, qa.Activate(7))
					require.NoError(t, qb.Activate(7))
					ah, err := a.pd.CreateAHTo(b.qp.LocalInfo(0).GID)
					require.NoError(t, err)
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qb.Num(), 7
				} else {
					require.NoError(t, qa.Connect(qb.LocalInfo(0), nil))
					require.NoError(t, qb.Connect(qa.LocalInfo(0), nil))
				}
				require.NoError(t, qb.PostRecv(&RecvWR{ID: 4, SGList: []SGE{lost.SGE(lostFrom-8, 1<<12)}}))
				vanish()
				require.NoError(t, qa.PostSend(&wr))
				require.Equal(t, WCSuccess, a.completion(t, ctx).Status)
				wc := b.completion(t, ctx)
				require.EqualValues(t, 4, wc.ID)
				require.Equal(t, WCLocalProtErr, wc.Status)
				require.Equal(t, StateErr, qb.State())
				require.True(t, lost.Lost())

				wr.SGList = []SGE{mine.SGE(lostFrom-8, 100)}
				require.NoError(t, qa.PostSend(&wr))
				require.Equal(t, WCSuccess, a.completion(t, ctx).Status)
				ev, err := a.d.AsyncEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, EventQPFatal, ev.Type)
				require.Equal(t, qa, ev.QP)
				require.Equal(t, StateErr, qa.State())
				require.True(t, mine.Lost())
			})
		}
	}
}
