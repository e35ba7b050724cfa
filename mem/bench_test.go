package mem

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
)

func TestNoAllocs(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 4096, 0x1000, fullMR)
	w := mustMW(t, pd, Type2B)
	var l SGL
	var frags [8][]byte
	sges := repeatSGE(SGE{Addr: 0x1000, Length: 100, LKey: r.LKey()}, 8)
	wantFault(t, tb.Resolve(pd, sges, LocalWrite, &l), FaultNone)
	packet := make([]byte, 512)
	for name, f := range map[string]func() Fault{
		"local": func() Fault { _, _, f := tb.Local(pd, r.LKey(), 0x1000, 64, LocalWrite); return f },
		"remote": func() Fault {
			v, f := tb.Remote(pd, testQP, r.RKey(), 0x1000, 8, RemoteAtomic)
			v.FetchAdd(1)
			v.CompareSwap(1, 2)
			v.Store(packet[:8])
			return f
		},
		"remote fault": func() Fault { _, f := tb.Remote(pd, testQP, 1<<20, 0x1000, 8, RemoteRead); return f - FaultKey },
		"list": func() Fault {
			f := tb.Resolve(pd, sges, LocalWrite, &l)
			c := l.Cursor()
			c.CopyIn(packet)
			c.Seek(3)
			c.CopyOut(packet)
			c.Gather(frags[:0], 300)
			if !l.Valid() {
				return FaultState
			}
			return f
		},
		"bind and invalidate": func() Fault {
			key := NextRKey(w.RKey())
			if f := tb.BindWR(pd, testQP, w, key, BindInfo{Region: r, Addr: 0x1000, Length: 64, Access: RemoteRead}); f != FaultNone {
				return f
			}
			return tb.Invalidate(pd, testQP, key, true)
		},
	} {
		var fault Fault
		if n := testing.AllocsPerRun(100, func() { fault |= f() }); n != 0 || fault != FaultNone {
			t.Errorf("%s: %v allocations, fault %v", name, n, fault)
		}
	}
}

// sink keeps the compiler from dropping what is measured.
var sink int

func BenchmarkRemote(b *testing.B) {
	for _, regions := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("regions=%d", regions), func(b *testing.B) {
			tb, pd := newTable(b)
			buf := make([]byte, 4096)
			keys := make([]ib.RKey, regions)
			for i := range keys {
				keys[i] = mustRegister(b, pd, RegionAttr{Bytes: buf, Access: fullMR | ZeroBased}).RKey()
			}
			rand.New(rand.NewPCG(1, 1)).Shuffle(regions, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				v, f := tb.Remote(pd, testQP, keys[i], 64, 1024, RemoteWrite)
				if f != FaultNone {
					b.Fatal(f)
				}
				sink += len(v.Bytes)
				if i++; i == regions {
					i = 0
				}
			}
		})
	}
}

// BenchmarkLookup compares the key table with a Go map.
func BenchmarkLookup(b *testing.B) {
	const regions = 1000
	tb, pd := newTable(b)
	byKey := map[uint32]*grant{}
	var keys []uint32
	for range regions {
		r := mustRegion(b, pd, 1, 0, fullMR)
		byKey[r.key] = &r.grant
		keys = append(keys, r.key)
	}
	b.Run("table", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if tb.keys.lookup(keys[i]) == nil {
				b.Fatal("lost")
			}
			if i++; i == regions {
				i = 0
			}
		}
	})
	b.Run("map", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if byKey[keys[i]] == nil {
				b.Fatal("lost")
			}
			if i++; i == regions {
				i = 0
			}
		}
	})
}

func BenchmarkLocal(b *testing.B) {
	tb, pd := newTable(b)
	r := mustRegion(b, pd, 4096, 0x1000, fullMR)
	b.ReportAllocs()
	for b.Loop() {
		p, _, f := tb.Local(pd, r.LKey(), 0x1040, 1024, LocalWrite)
		if f != FaultNone {
			b.Fatal(f)
		}
		sink += len(p)
	}
}

func BenchmarkValid(b *testing.B) {
	tb, pd := newTable(b)
	r := mustRegion(b, pd, 4096, 0, fullMR)
	v, _ := tb.Remote(pd, testQP, r.RKey(), 0, 4096, RemoteWrite)
	for b.Loop() {
		if !v.Valid() {
			b.Fatal("revoked")
		}
	}
}

func BenchmarkFetchAdd(b *testing.B) {
	v, _ := wordView(b, 0)
	for b.Loop() {
		if _, f := v.FetchAdd(1); f != FaultNone {
			b.Fatal(f)
		}
	}
}

func BenchmarkCursor(b *testing.B) {
	tb, pd := newTable(b)
	r := mustRegion(b, pd, 1<<20, 0, fullMR)
	var l SGL
	wantFault(b, tb.Resolve(pd, []SGE{{0, 1 << 20, r.LKey()}}, 0, &l), FaultNone)
	var frags [4][]byte
	b.ReportAllocs()
	c := l.Cursor()
	for b.Loop() {
		if c.Left() < 4096 {
			c.Seek(0)
		}
		_, n := c.Gather(frags[:0], 4096)
		sink += n
	}
}

func BenchmarkRegister(b *testing.B) {
	tb, pd := newTable(b)
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		r, err := tb.Register(pd, RegionAttr{Bytes: buf, Access: fullMR})
		if err != nil {
			b.Fatal(err)
		}
		r.Deregister()
	}
}

func BenchmarkBindInvalidate(b *testing.B) {
	tb, pd := newTable(b)
	r := mustRegion(b, pd, 4096, 0, fullMR)
	w := mustMW(b, pd, Type2B)
	b.ReportAllocs()
	for b.Loop() {
		key := NextRKey(w.RKey())
		if tb.BindWR(pd, testQP, w, key, BindInfo{Region: r, Length: 64, Access: RemoteRead}) != FaultNone ||
			tb.Invalidate(pd, testQP, key, false) != FaultNone {
			b.Fatal("refused")
		}
	}
}
