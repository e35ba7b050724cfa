package mem

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"testing"
)

// wordView registers one word with value x and returns a view of it.
func wordView(t testing.TB, x uint64) (View, *uint64) {
	t.Helper()
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 64, 0x1000, fullMR)
	v, f := tb.Remote(pd, testQP, r.RKey(), 0x1008, 8, RemoteAtomic)
	wantFault(t, f, FaultNone)
	p, err := r.Uint64(8)
	wantErr(t, err, nil, "")
	*p = x
	return v, p
}

func TestAtomics(t *testing.T) {
	v, p := wordView(t, 5)
	for _, tt := range []struct {
		name       string
		do         func() (uint64, Fault)
		orig, then uint64
	}{
		{"swap", func() (uint64, Fault) { return v.CompareSwap(5, 9) }, 5, 9},
		{"no swap", func() (uint64, Fault) { return v.CompareSwap(5, 1) }, 9, 9},
		{"swap with itself", func() (uint64, Fault) { return v.CompareSwap(9, 9) }, 9, 9},
		{"add", func() (uint64, Fault) { return v.FetchAdd(3) }, 9, 12},
		{"add nothing", func() (uint64, Fault) { return v.FetchAdd(0) }, 12, 12},
		{"subtract", func() (uint64, Fault) { return v.FetchAdd(math.MaxUint64) }, 12, 11},
		{"wrap", func() (uint64, Fault) { return v.FetchAdd(math.MaxUint64 - 10) }, 11, 0},
		{"load", v.Load, 0, 0},
	} {
		orig, f := tt.do()
		if orig != tt.orig || f != FaultNone || *p != tt.then {
			t.Errorf("%s: orig %d fault %v then %d, want %d, %d", tt.name, orig, f, *p, tt.orig, tt.then)
		}
	}
}

// Memory is in the byte order of the host; ATOMIC WRITE stores bytes as they lie.
func TestAtomicByteOrder(t *testing.T) {
	v, p := wordView(t, 0)
	src := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	wantFault(t, v.Store(src), FaultNone)
	if !bytes.Equal(v.Bytes, src) || *p != binary.NativeEndian.Uint64(src) {
		t.Errorf("stored % x", v.Bytes)
	}
	for _, n := range []int{0, 7, 9} {
		wantFault(t, v.Store(make([]byte, n)), FaultBounds)
	}
	if !bytes.Equal(v.Bytes, src) {
		t.Error("a refused store wrote")
	}
	v.CompareSwap(*p, 0x0102030405060708)
	if got := binary.NativeEndian.Uint64(v.Bytes); got != 0x0102030405060708 {
		t.Errorf("%#x", got)
	}
}

// Alignment is that of the virtual address and of the real one; they differ when
// the IOVA is not congruent to the buffer.
func TestAtomicAlignment(t *testing.T) {
	tb, pd := newTable(t)
	buf := make([]byte, 128)
	for shift := range uint64(8) { // of the buffer
		for iova := uint64(0x1000); iova < 0x1008; iova++ {
			r := mustRegister(t, pd,
				RegionAttr{Bytes: buf[shift : shift+64], IOVA: iova, IOVASet: true, Access: fullMR})
			for off := range uint64(16) {
				v, f := tb.Remote(pd, testQP, r.RKey(), iova+off, 8, RemoteAtomic|RemoteWrite)
				wantFault(t, f, FaultNone)
				want := FaultNone
				if (iova+off)%8 != 0 || (addressOf(buf)+shift+off)%8 != 0 {
					want = FaultAlign
				}
				before := append([]byte(nil), buf...)
				_, f1 := v.FetchAdd(1)
				_, f2 := v.CompareSwap(0, 1)
				_, f3 := v.Load()
				f4 := v.Store([]byte("abcdefgh"))
				if f1 != want || f2 != want || f3 != want || f4 != want {
					t.Fatalf("shift %d VA %#x: %v %v %v %v, want %v", shift, iova+off, f1, f2, f3, f4, want)
				}
				if want != FaultNone && !bytes.Equal(before, buf) {
					t.Fatal("a refused atomic wrote")
				}
			}
			wantErr(t, r.Deregister(nil), nil, "")
		}
	}
}

func TestAtomicShortView(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 64, 0, fullMR)
	for n := range uint32(8) {
		v, f := tb.Remote(pd, testQP, r.RKey(), 56, n, RemoteAtomic)
		wantFault(t, f, FaultNone)
		_, f = v.FetchAdd(1)
		wantFault(t, f, FaultBounds)
		_, f = v.CompareSwap(0, 1)
		wantFault(t, f, FaultBounds)
	}
	wantFault(t, View{}.Store(make([]byte, 8)), FaultBounds)
}

func TestRegionUint64(t *testing.T) {
	_, pd := newTable(t)
	r := mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 64)[:60], IOVA: 3, IOVASet: true})
	for _, tt := range []struct {
		off  uint64
		want Fault
	}{
		{0, FaultNone}, {48, FaultNone}, {52, FaultAlign}, {1, FaultAlign}, {53, FaultBounds},
		{56, FaultBounds}, {60, FaultBounds}, {61, FaultBounds}, {math.MaxUint64, FaultBounds},
		{math.MaxUint64 - 7, FaultBounds},
	} {
		p, err := r.Uint64(tt.off)
		if tt.want != FaultNone {
			wantErr(t, err, tt.want, "off")
			continue
		}
		wantErr(t, err, nil, "")
		*p = tt.off + 1
		if binary.NativeEndian.Uint64(r.Bytes()[tt.off:]) != tt.off+1 {
			t.Errorf("word at %d is elsewhere", tt.off)
		}
	}
	wantErr(t, r.Deregister(nil), nil, "")
	_, err := r.Uint64(0)
	wantErr(t, err, ErrDestroyed, "")
}

// TestAtomicsCompose: the application's sync/atomic and the atomics of peers, at the same time on
// one word, lose no update. Run with -race it also shows that the two are synchronised.
func TestAtomicsCompose(t *testing.T) {
	const n = 20000
	v, p := wordView(t, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			atomic.AddUint64(p, 1)
		}
	})
	wg.Go(func() {
		for range n {
			if _, f := v.FetchAdd(1 << 20); f != FaultNone {
				t.Error(f)
				return
			}
		}
	})
	wg.Go(func() {
		for range n {
			for {
				old, _ := v.Load()
				if orig, _ := v.CompareSwap(old, old+1<<40); orig == old {
					break
				}
			}
		}
	})
	wg.Wait()
	if want := uint64(n) + n<<20 + n<<40; atomic.LoadUint64(p) != want {
		t.Errorf("%#x, want %#x", *p, want)
	}
}

// TestCompareSwapLinearizable: among many that try to move the word on from the
// same value, exactly one sees that value as the original.
func TestCompareSwapLinearizable(t *testing.T) {
	const rounds, tries = 2000, 4
	v, p := wordView(t, 0)
	var wins [tries]uint64
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() {
			for round := range uint64(rounds) {
				for {
					var orig uint64
					won := false
					if i%2 == 0 {
						orig, _ = v.CompareSwap(round, round+1)
						won = orig == round
					} else if won = atomic.CompareAndSwapUint64(p, round, round+1); !won {
						orig = atomic.LoadUint64(p)
					}
					if won {
						wins[i]++
						break
					}
					if orig > round {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if sum := wins[0] + wins[1] + wins[2] + wins[3]; sum != rounds || *p != rounds {
		t.Errorf("%d wins in %d rounds, word %d", sum, rounds, *p)
	}
}
