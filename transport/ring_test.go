package transport

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// ringMemory is memory for the ring of a CQ for n completions.
func ringMemory(n int) []byte {
	b := make([]byte, RingBytes(n)+64)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & 63
	return b[off : off+RingBytes(n)]
}

func newRingCQ(t testing.TB, e *Engine, n int) (*CQ, []byte) {
	t.Helper()
	m := ringMemory(n)
	cq, err := e.CreateRingCQ(n, m, "mine")
	require.NoError(t, err)
	require.True(t, cq.HasRing())
	require.Equal(t, "mine", cq.UserData())
	return cq, m
}

// The layout is what programs in other languages are compiled with: struct ibv_wc of
// infiniband/verbs.h (rdma-core 44), on a machine of 64 bits.
func TestRingLayout(t *testing.T) {
	var h RingHeader
	require.EqualValues(t, 0, unsafe.Offsetof(h.Tail))
	require.EqualValues(t, 64, unsafe.Offsetof(h.Head))
	require.EqualValues(t, 128, unsafe.Offsetof(h.Mask))
	require.EqualValues(t, 136, unsafe.Offsetof(h.State))
	require.Equal(t, 192, RingHeaderBytes)

	var w RingWC
	require.EqualValues(t, 0, unsafe.Offsetof(w.ID))
	require.EqualValues(t, 8, unsafe.Offsetof(w.Status))
	require.EqualValues(t, 12, unsafe.Offsetof(w.Opcode))
	require.EqualValues(t, 16, unsafe.Offsetof(w.VendorErr))
	require.EqualValues(t, 20, unsafe.Offsetof(w.ByteLen))
	require.EqualValues(t, 24, unsafe.Offsetof(w.Imm))
	require.EqualValues(t, 28, unsafe.Offsetof(w.QPN))
	require.EqualValues(t, 32, unsafe.Offsetof(w.SrcQP))
	require.EqualValues(t, 36, unsafe.Offsetof(w.Flags))
	require.EqualValues(t, 40, unsafe.Offsetof(w.PKeyIndex))
	require.EqualValues(t, 42, unsafe.Offsetof(w.SLID))
	require.EqualValues(t, 44, unsafe.Offsetof(w.SL))
	require.EqualValues(t, 45, unsafe.Offsetof(w.DLIDPathBits))
	require.EqualValues(t, 48, unsafe.Offsetof(w.Time))
	require.Equal(t, 64, RingSlotBytes)

	require.Equal(t, 192+64, RingBytes(1))
	require.Equal(t, 192+128*64, RingBytes(100))
}

// What a completion is in the ring, byte for byte, and read back.
func TestRingContent(t *testing.T) {
	b := newBench(t)
	cq, m := newRingCQ(t, b.e, 4)
	le := binary.NativeEndian
	b.e.now = 77
	for i, tc := range []struct {
		wc   WC
		op   uint32
		imm  uint32
		name string
	}{
		{WC{ID: 1 << 40, Opcode: WCFlush, QPN: 0xabcdef, ByteLen: 9}, 8, 0, "FLUSH"},
		{WC{ID: 2, Opcode: WCAtomicWrite, QPN: 3}, 9, 0, "ATOMIC WRITE"},
		{WC{ID: 3, Opcode: WCRecvWriteImm, Flags: WCWithImm, Imm: 0x01020304}, 129,
			le.Uint32([]byte{1, 2, 3, 4}), "imm_data is in network order"},
		{WC{ID: 4, Opcode: WCRecv, Flags: WCWithInv | WCWithGRH, InvKey: 0x01020304, SrcQP: 5, SL: 10}, 128,
			0x01020304, "keys are not"},
		{WC{ID: 5, Status: WCRNRRetryExcErr, VendorErr: 0xdead}, 0, 0, "an error, in a slot that was used"},
	} {
		require.True(t, cq.push(b.e, &tc.wc, false), tc.name)
		require.EqualValues(t, i+1, le.Uint64(m))
		slot := m[192+i%4*64:][:64]
		require.Equal(t, tc.wc.ID, le.Uint64(slot), tc.name)
		require.EqualValues(t, tc.wc.Status, le.Uint32(slot[8:]), tc.name)
		require.Equal(t, tc.op, le.Uint32(slot[12:]), tc.name)
		require.Equal(t, tc.wc.VendorErr, le.Uint32(slot[16:]), tc.name)
		require.Equal(t, tc.wc.ByteLen, le.Uint32(slot[20:]), tc.name)
		require.Equal(t, tc.imm, le.Uint32(slot[24:]), tc.name)
		require.EqualValues(t, tc.wc.QPN, le.Uint32(slot[28:]), tc.name)
		require.EqualValues(t, tc.wc.SrcQP, le.Uint32(slot[32:]), tc.name)
		require.EqualValues(t, tc.wc.Flags, le.Uint32(slot[36:]), tc.name)
		require.Equal(t, tc.wc.SL, slot[44], tc.name)
		require.EqualValues(t, 77, le.Uint64(slot[48:]), tc.name)
		require.Equal(t, 1, cq.Len())
		require.Equal(t, []WC{tc.wc}, pollAll(cq), tc.name)
		require.EqualValues(t, i+1, le.Uint64(m[64:]))
	}
}

// The numbers of ibv_wc_opcode, typed from infiniband/verbs.h (IBV_WC_FLUSH is of rdma-core 47).
func TestRingOpcodes(t *testing.T) {
	for op, n := range map[WCOpcode]uint32{
		WCSend: 0, WCWrite: 1, WCRead: 2, WCCompareSwap: 3, WCFetchAdd: 4, WCBindMW: 5, WCLocalInv: 6,
		WCFlush: 8, WCAtomicWrite: 9, WCRecv: 128, WCRecvWriteImm: 129,
	} {
		require.Equal(t, n, verbsOpcode(op))
		require.Equal(t, op, opcodeOfVerbs(n))
	}
}

func TestRingMemoryRefused(t *testing.T) {
	b := newBench(t)
	var arg *ArgError
	_, err := b.e.CreateRingCQ(0, ringMemory(1), nil)
	require.ErrorAs(t, err, &arg)
	_, err = b.e.CreateRingCQ(MaxCQE+1, ringMemory(1), nil)
	require.ErrorAs(t, err, &arg)
	_, err = b.e.CreateRingCQ(5, ringMemory(4), nil)
	require.ErrorAs(t, err, &arg)
	require.Equal(t, "memory", arg.Arg)
	_, err = b.e.CreateRingCQ(4, ringMemory(8)[8:], nil)
	require.ErrorAs(t, err, &arg)
	require.Equal(t, "memory", arg.Arg)
	cq, _ := newRingCQ(t, b.e, 4)
	require.ErrorAs(t, cq.Resize(8), &arg)
	require.ErrorIs(t, b.cq.ResizeRing(8, ringMemory(8)), ErrDestroyed)
}

func TestRingOverflow(t *testing.T) {
	b := newBench(t)
	cq, m := newRingCQ(t, b.e, 3)
	for i := range uint64(3) {
		require.True(t, cq.push(b.e, &WC{ID: i}, false))
	}
	require.Zero(t, m[136])
	require.False(t, cq.push(b.e, &WC{ID: 9}, false), "the fourth slot is no room")
	require.False(t, cq.push(b.e, &WC{ID: 9}, false))
	require.EqualValues(t, RingOverflowed, binary.NativeEndian.Uint32(m[136:]))
	ev, ok := b.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventCQError, CQ: cq}, ev)
	require.Empty(t, drainEvents(b.e))
	require.True(t, cq.Overflowed())
	require.Equal(t, []WC{{ID: 0}, {ID: 1}, {ID: 2}}, pollAll(cq))
	require.False(t, cq.push(b.e, &WC{ID: 9}, false), "dead for good")
}

// A consumer that writes nonsense costs its CQ, and nothing else.
func TestRingHeadIsNotTrusted(t *testing.T) {
	for _, head := range []uint64{1, 3, 1 << 63, math.MaxUint64 - 9} {
		b := newBench(t)
		cq, m := newRingCQ(t, b.e, 2)
		binary.NativeEndian.PutUint64(m[64:], head)
		require.False(t, cq.push(b.e, &WC{ID: 1}, false), "head %d, and tail 0", head)
		require.LessOrEqual(t, cq.Len(), 2)
		bigger := ringMemory(64)
		require.NoError(t, cq.ResizeRing(64, bigger))
		require.Zero(t, cq.Len())
	}
	b := newBench(t)
	cq, m := newRingCQ(t, b.e, 4)
	for i := range uint64(100) {
		binary.NativeEndian.PutUint64(m[64:], i) // always as if all had been read
		binary.NativeEndian.PutUint64(m[128:], math.MaxUint64)
		require.True(t, cq.push(b.e, &WC{ID: i}, false))
	}
}

func TestRingResize(t *testing.T) {
	b := newBench(t)
	cq, old := newRingCQ(t, b.e, 4)
	var one [1]WC
	for i := range uint64(6) {
		require.True(t, cq.push(b.e, &WC{ID: i, QPN: 7}, false))
		if i < 3 {
			require.Equal(t, 1, cq.Poll(one[:]))
		}
	}
	require.ErrorIs(t, cq.ResizeRing(2, ringMemory(2)), ErrBusy)
	var arg *ArgError
	require.ErrorAs(t, cq.ResizeRing(0, ringMemory(2)), &arg)
	require.ErrorAs(t, cq.ResizeRing(16, ringMemory(8)), &arg)
	require.Equal(t, 3, cq.Len(), "a resize that fails changes nothing")
	grown := ringMemory(16)
	require.NoError(t, cq.ResizeRing(16, grown))
	require.Equal(t, 16, cq.Cap())
	before := string(old)
	for i := range uint64(13) {
		require.True(t, cq.push(b.e, &WC{ID: 6 + i}, false))
	}
	require.False(t, cq.push(b.e, &WC{ID: 99}, false))
	require.Equal(t, before, string(old), "the memory is the caller's again")
	got := pollAll(cq)
	require.Len(t, got, 16)
	for i, wc := range got {
		require.EqualValues(t, 3+i, wc.ID)
	}
	require.EqualValues(t, 7, got[2].QPN)
	shrunk := ringMemory(1)
	require.NoError(t, cq.ResizeRing(1, shrunk))
	require.EqualValues(t, RingOverflowed, binary.NativeEndian.Uint32(shrunk[136:]), "the new memory says so, too")
}

func TestRingEnd(t *testing.T) {
	b := newBench(t)
	cq, m := newRingCQ(t, b.e, 4)
	require.True(t, cq.push(b.e, &WC{ID: 1}, false))
	require.NoError(t, cq.Destroy())
	before := string(m)
	require.False(t, cq.push(b.e, &WC{ID: 2}, false))
	require.Zero(t, cq.Len())
	require.Zero(t, cq.Poll(make([]WC, 1)))
	require.ErrorIs(t, cq.ResizeRing(8, ringMemory(8)), ErrDestroyed)
	cq, m2 := newRingCQ(t, b.e, 4)
	cq.Detach()
	require.False(t, cq.push(b.e, &WC{ID: 2}, false))
	require.Zero(t, cq.Len())
	require.Equal(t, before, string(m))
	require.Zero(t, m2[0])
}

// Arming works as ever: what C reads, Go tells of.
func TestRingArm(t *testing.T) {
	b := newBench(t)
	cq, _ := newRingCQ(t, b.e, 4)
	cq.Arm(true)
	require.True(t, cq.push(b.e, &WC{}, false))
	require.Empty(t, drainEvents(b.e))
	require.True(t, cq.push(b.e, &WC{}, true))
	require.Equal(t, []EventType{EventCompletion}, drainEvents(b.e))
}

// A consumer that reads the memory beside the producers, of two engines.
func TestRingConcurrent(t *testing.T) {
	seeds.Slow(t)
	const n, total = 8, 20_000
	b, other := newBench(t), newBench(t)
	cq, _ := newRingCQ(t, b.e, n)
	cq.Share()
	r := cq.ring
	var pushed [2]uint64
	var wg sync.WaitGroup
	room := make(chan struct{}, n)
	for range n {
		room <- struct{}{}
	}
	for i, e := range []*Engine{b.e, other.e} {
		wg.Go(func() {
			for k := range uint64(total) {
				<-room
				if !cq.push(e, &WC{ID: uint64(i)<<32 | k, ByteLen: uint32(k)}, false) {
					return
				}
				pushed[i]++
			}
		})
	}
	var next [2]uint64
	for head := uint64(0); head < 2*total; {
		if r.head.Tail.Load() == head {
			continue
		}
		w := r.slots[head&r.head.Mask]
		from := w.ID >> 32
		require.Equal(t, next[from], w.ID&math.MaxUint32)
		require.EqualValues(t, next[from], w.ByteLen)
		next[from]++
		head++
		r.head.Head.Store(head)
		room <- struct{}{}
	}
	wg.Wait()
	require.Equal(t, [2]uint64{total, total}, pushed)
}
