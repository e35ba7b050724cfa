//go:build linux

package xdp

import (
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// fakeKernel is the other side of the rings of a link with one queue, in ordinary memory.
type fakeKernel struct {
	l      *Link
	q      *queue
	frames uint32 // in the UMEM
}

func fakeRing[T unix.XDPDesc | uint64](n uint32) ring[T] {
	return ring[T]{prod: new(uint32), cons: new(uint32), flags: new(uint32), entries: make([]T, n), mask: n - 1}
}

func newFakeKernel(t *testing.T) *fakeKernel {
	const n = 8
	l := &Link{opts: Options{RxFrames: n, TxFrames: 1}}
	var err error
	l.local.Waker, err = sockio.NewPoller()
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.local.Waker.Close() })
	l.rx.l, l.rx.arena = l, make([]byte, arenaBytes)
	l.rx.split.Init(4791)
	l.rx.search.found()
	q := &queue{f: &iface{l: l}, fd: -1, slotBytes: chunkBytes, slotBase: n * chunkBytes,
		umem: make([]byte, (n+1)*chunkBytes)}
	q.fill, q.rx, q.comp, q.tx = fakeRing[uint64](n), fakeRing[unix.XDPDesc](n), fakeRing[uint64](1),
		fakeRing[unix.XDPDesc](1)
	require.NoError(t, q.stock())
	l.rx.queues = []*queue{q}
	return &fakeKernel{l, q, n}
}

// fill takes a chunk that was given to the kernel.
func (k *fakeKernel) fill(t *testing.T) uint64 {
	require.NotEqual(t, atomic.LoadUint32(k.q.fill.prod), atomic.LoadUint32(k.q.fill.cons), "the fill ring is empty")
	at := atomic.AddUint32(k.q.fill.cons, 1) - 1
	return k.q.fill.entries[at&k.q.fill.mask]
}

// receive has descriptors come up.
func (k *fakeKernel) receive(all ...unix.XDPDesc) { forge(&k.q.rx, all...) }

// frame is a received frame of n bytes, which is none of RoCE.
func (k *fakeKernel) frame(t *testing.T, n, options uint32) unix.XDPDesc {
	return unix.XDPDesc{Addr: k.fill(t) + kernelHeadroom, Len: n, Options: options}
}

// A kernel that does not do as agreed, on the receiving side: the link ends, and says why. It reads
// nothing beyond the UMEM.
func TestReceiveBroken(t *testing.T) {
	for name, c := range map[string]struct {
		play func(t *testing.T, k *fakeKernel)
		says string
	}{
		"no chunk of the UMEM": {func(t *testing.T, k *fakeKernel) { k.receive(unix.XDPDesc{Addr: 1 << 40, Len: 60}) },
			"nobody has it"},
		"below it": {func(t *testing.T, k *fakeKernel) {
			k.receive(unix.XDPDesc{Addr: ^uint64(0) - 10, Len: 60})
		}, "nobody has it"},
		"one to send": {func(t *testing.T, k *fakeKernel) {
			k.receive(unix.XDPDesc{Addr: k.q.slotBase, Len: 60})
		}, "nobody has it"},
		"longer than a chunk": {func(t *testing.T, k *fakeKernel) {
			d := k.frame(t, 60, 0)
			d.Len = 1<<32 - 1
			k.receive(d)
		}, "a neighbour has it"},
		"twice": {func(t *testing.T, k *fakeKernel) {
			d := k.frame(t, 60, 0)
			k.receive(d, d)
		}, "this process has it"},
		"a part of a frame that is beyond": {func(t *testing.T, k *fakeKernel) {
			k.receive(k.frame(t, 60, unix.XDP_PKT_CONTD), unix.XDPDesc{Addr: 1 << 30, Len: 60})
		}, "nobody has it"},
		"more than the ring holds": {func(t *testing.T, k *fakeKernel) { atomic.AddUint32(k.q.rx.prod, k.frames+1) },
			"the ring holds 8"},
		"going back": {func(t *testing.T, k *fakeKernel) { atomic.AddUint32(k.q.rx.prod, ^uint32(0)) },
			"the ring holds 8"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel(t)
			k.receive(k.frame(t, 60, 0)) // a good one first
			rx := make([]edge.RxPacket, 4)
			_, err := k.l.Recv(rx)
			require.NoError(t, err)
			c.play(t, k)
			for range 3 {
				if _, err = k.l.Recv(rx); err != nil {
					break
				}
			}
			require.ErrorContains(t, err, c.says)
			_, again := k.l.Recv(rx)
			require.Equal(t, err, again)
		})
	}
}

// A kernel that has no chunk to receive into: nothing comes, and nothing is lost of what has; when
// it has some again all goes on. A frame whose last part has not come is not looked at before it
// has.
func TestReceiveStarves(t *testing.T) {
	k := newFakeKernel(t)
	rx := make([]edge.RxPacket, 4)
	heard := func() uint64 {
		_, err := k.l.Recv(rx)
		require.NoError(t, err)
		return k.l.rx.split.Malformed.Load()
	}
	want := uint64(0)
	for range 20 {
		for range k.frames { // all that there are
			k.receive(k.frame(t, 60, 0))
		}
		require.Zero(t, k.q.fill.unconsumed(), "the kernel has none left")
		want += uint64(k.frames)
		require.Equal(t, want, heard())
		require.Equal(t, want, heard(), "nothing more, and all chunks are given back")
		require.Equal(t, k.frames, k.q.fill.unconsumed())
		require.Equal(t, int(k.frames), k.q.rxLedger.away)
	}
	k.receive(k.frame(t, 60, unix.XDP_PKT_CONTD))
	require.Equal(t, want, heard())
	k.receive(k.frame(t, 60, unix.XDP_PKT_CONTD))
	require.Equal(t, want, heard())
	k.receive(k.frame(t, 60, 0))
	require.Equal(t, want+1, heard())
	heard()
	require.Equal(t, k.frames, k.q.fill.unconsumed())
}
