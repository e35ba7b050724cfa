package mem

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

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
		"local": func() Fault { _, f := tb.Local(pd, r.LKey(), 0x1000, 64, LocalWrite); return f },
		"remote": func() Fault {
			v, f := tb.Remote(pd, testQP, r.RKey(), 0x1000, 8, RemoteAtomic)
			v.FetchAdd(1)
			v.CompareSwap(1, 2)
			v.Store(packet[:8])
			return f
		},
		"remote fault": func() Fault {
			_, f := tb.Remote(pd, testQP, 1<<20, 0x1000, 8, RemoteRead)
			return f - FaultKey
		},
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
			if f := tb.BindWR(pd, testQP, w, key,
				BindInfo{Region: r, Addr: 0x1000, Length: 64, Access: RemoteRead}); f != FaultNone {
				return f
			}
			return tb.Invalidate(pd, testQP, key, true)
		},
	} {
		var fault Fault
		want := 0.0
		if name == "bind and invalidate" {
			want = 1 // the grant, which readers may be looking at
		}
		if n := testing.AllocsPerRun(100, func() { fault |= f() }); n != want || fault != FaultNone {
			t.Errorf("%s: %v allocations, want %v, fault %v", name, n, want, fault)
		}
	}
}

// TestGrantSize: a grant is a cache line, so that keys used on different cores share none.
func TestGrantSize(t *testing.T) {
	if n := unsafe.Sizeof(grant{}); n > 64 || n < 64 && unsafe.Sizeof(n) == 8 {
		t.Errorf("%d bytes", n)
	}
	if n := unsafe.Sizeof(keySlots{}); n > 64 || n < 64 && unsafe.Sizeof(n) == 8 {
		t.Errorf("table: %d bytes", n)
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

// BenchmarkRemoteParallel has engines on several cores look keys up, of one region or of a region
// each, alone or while somebody registers and deregisters all the time.
func BenchmarkRemoteParallel(b *testing.B) {
	for _, tt := range []struct {
		name        string
		own         bool
		registering bool
	}{{"one region", false, false}, {"own regions", true, false}, {"one region, registering", false, true}} {
		b.Run(tt.name, func(b *testing.B) {
			tb, pd := newTable(b)
			var stop atomic.Bool
			var wg sync.WaitGroup
			if tt.registering {
				buf := make([]byte, 64)
				wg.Go(func() {
					for !stop.Load() {
						r, err := tb.Register(pd, RegionAttr{Bytes: buf, Access: fullMR})
						if err != nil || r.Deregister(nil) != nil {
							b.Error("refused")
							return
						}
					}
				})
			}
			shared := mustRegion(b, pd, 4096, 0, fullMR)
			b.RunParallel(func(p *testing.PB) {
				r := shared
				if tt.own {
					var err error
					if r, err = tb.Register(pd,
						RegionAttr{Bytes: make([]byte, 4096), IOVASet: true, Access: fullMR}); err != nil {
						b.Error(err)
						return
					}
				}
				key := r.RKey()
				for p.Next() {
					if _, f := tb.Remote(pd, testQP, key, 64, 1024, RemoteWrite); f != FaultNone {
						b.Error(f)
						return
					}
				}
			})
			stop.Store(true)
			wg.Wait()
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
		byKey[uint32(r.LKey())] = r.cur.Load()
		keys = append(keys, uint32(r.LKey()))
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
		p, f := tb.Local(pd, r.LKey(), 0x1040, 1024, LocalWrite)
		if f != FaultNone {
			b.Fatal(f)
		}
		sink += len(p)
	}
}

func BenchmarkResolve(b *testing.B) {
	tb, pd := newTable(b)
	r := mustRegion(b, pd, 4096, 0x1000, fullMR)
	sges := []SGE{{Addr: 0x1040, Length: 1024, LKey: r.LKey()}}
	var l SGL
	b.ReportAllocs()
	for b.Loop() {
		if f := tb.Resolve(pd, sges, LocalWrite, &l); f != FaultNone || !l.Valid() {
			b.Fatal(f)
		}
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
		r.Deregister(nil)
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
