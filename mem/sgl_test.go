package mem

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
)

func TestResolve(t *testing.T) {
	tb, pd := newTable(t)
	otherPD := mustPD(t, tb)
	a := mustRegion(t, pd, 64, 0x1000, LocalWrite)
	ro := mustRegion(t, pd, 64, 0x2000, 0)
	foreign := mustRegion(t, otherPD, 64, 0x3000, LocalWrite)
	ok := SGE{Addr: 0x1000, Length: 64, LKey: a.LKey()}
	for _, tt := range []struct {
		name string
		sges []SGE
		need Access
		want Fault
		n    uint64
		segs int
	}{
		{"nothing", nil, LocalWrite, FaultNone, 0, 0},
		{"one", []SGE{ok}, LocalWrite, FaultNone, 64, 1},
		{"twice the same", []SGE{ok, ok}, LocalWrite, FaultNone, 128, 2},
		{"empty ones are skipped", []SGE{{}, ok, {LKey: 99, Addr: 7}}, LocalWrite, FaultNone, 64, 1},
		{"read only, to send", []SGE{ok, {0x2000, 64, ro.LKey()}}, 0, FaultNone, 128, 2},
		{"read only, to receive", []SGE{ok, {0x2000, 64, ro.LKey()}}, LocalWrite, FaultAccess, 0, 0},
		{"other PD", []SGE{ok, {0x3000, 64, foreign.LKey()}}, LocalWrite, FaultPD, 0, 0},
		{"bad key", []SGE{ok, {0x1000, 64, 5}}, LocalWrite, FaultKey, 0, 0},
		{"too long", []SGE{ok, {0x1000, 65, a.LKey()}}, LocalWrite, FaultBounds, 0, 0},
		{"most", repeatSGE(ok, MaxSGE), LocalWrite, FaultNone, 64 * MaxSGE, MaxSGE},
		{"too many", repeatSGE(ok, MaxSGE+1), LocalWrite, FaultBounds, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l SGL
			wantFault(t, tb.Resolve(pd, []SGE{ok}, 0, &l), FaultNone) // the next one replaces it
			wantFault(t, tb.Resolve(pd, tt.sges, tt.need, &l), tt.want)
			if l.Len() != tt.n || len(l.segs) != tt.segs || !l.Valid() {
				t.Errorf("%d bytes in %d segments", l.Len(), len(l.segs))
			}
			if c := l.Cursor(); c.Left() != tt.n {
				t.Errorf("%d left", c.Left())
			}
		})
	}
}

func repeatSGE(s SGE, n int) []SGE {
	var out []SGE
	for range n {
		out = append(out, s)
	}
	return out
}

func TestSGLRevocation(t *testing.T) {
	tb, pd := newTable(t)
	released := 0
	reg := func() *Region {
		return mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 8), IOVASet: true, Access: LocalWrite,
			OnRelease: func() { released++ }})
	}
	a, b := reg(), reg()
	var l SGL
	wantFault(t, tb.Resolve(pd, []SGE{{0, 8, a.LKey()}, {0, 8, b.LKey()}}, 0, &l), FaultNone)
	if !l.Valid() {
		t.Fatal("not valid")
	}
	wantErr(t, b.Deregister(nil), nil, "")
	if l.Valid() || released != 1 {
		t.Fatalf("valid %v, released %d", l.Valid(), released)
	}
	l.Reset()
	if !l.Valid() || l.Len() != 0 || len(l.segs) != 0 {
		t.Error("Reset left something")
	}
	// Reset must not keep memory alive behind the length.
	for _, s := range l.segs[:cap(l.segs)] {
		if s.bytes != nil || s.g != nil {
			t.Error("Reset keeps references")
		}
	}
}

// TestCursorModel compares every move of a cursor with the same on one flat slice.
func TestCursorModel(t *testing.T) {
	seeds.Run(t, seeds.Fewer(200), func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tb, pd := newTable(t)
		arena := make([]byte, 512)
		for i := range arena {
			arena[i] = byte(rng.Uint32())
		}
		r := mustRegister(t, pd, RegionAttr{Bytes: arena, Access: LocalWrite | ZeroBased})
		var sges []SGE
		var flat []byte
		var place []int // arena index of each byte of flat
		// Disjoint elements, so that CopyIn is seen once.
		for at := 0; len(sges) < int(seed%10); {
			n := rng.IntN(40)
			if rng.IntN(4) == 0 {
				n = 0
			}
			sges = append(sges, SGE{uint64(at), uint32(n), r.LKey()})
			for i := range n {
				place = append(place, at+i)
				flat = append(flat, arena[at+i])
			}
			at += n + rng.IntN(8)
		}
		var l SGL
		wantFault(t, tb.Resolve(pd, sges, LocalWrite, &l), FaultNone)
		c, pos := l.Cursor(), 0
		for step := range 200 {
			if c.Pos() != uint64(pos) || c.Left() != uint64(len(flat)-pos) {
				t.Fatalf("seed %d step %d: at %d, %d left, want %d of %d", seed, step, c.Pos(),
					c.Left(), pos, len(flat))
			}
			n := rng.IntN(60)
			m := min(n, len(flat)-pos)
			switch rng.IntN(5) {
			case 0:
				to := rng.IntN(len(flat) + 3)
				if ok := c.Seek(uint64(to)); ok != (to <= len(flat)) {
					t.Fatalf("seek to %d of %d: %v", to, len(flat), ok)
				} else if ok {
					pos = to
				}
			case 1:
				p := c.Next(n)
				if len(p) > m || (len(p) == 0) != (m == 0) || !bytes.Equal(p, flat[pos:pos+len(p)]) ||
					cap(p) != len(p) {
					t.Fatalf("seed %d step %d: Next(%d) at %d: % x", seed, step, n, pos, p)
				}
				pos += len(p)
			case 2:
				var frags [3][]byte
				room := rng.IntN(4)
				pieces, got := c.Gather(frags[:0:room], n)
				if joined := bytes.Join(pieces, nil); len(joined) != got || !bytes.Equal(joined, flat[pos:pos+got]) {
					t.Fatalf("Gather: % x", joined)
				}
				if got < m && len(pieces) < room || got > m || len(pieces) > room {
					t.Fatalf("Gather gave %d of %d bytes in %d of %d pieces", got, m, len(pieces), room)
				}
				pos += got
			case 3:
				dst := make([]byte, n)
				if got := c.CopyOut(dst); got != m || !bytes.Equal(dst[:m], flat[pos:pos+m]) {
					t.Fatalf("CopyOut gave %d of %d", got, m)
				}
				pos += m
			case 4:
				src := make([]byte, n)
				for i := range src {
					src[i] = byte(rng.Uint32())
				}
				want := append([]byte(nil), arena...)
				for i := range m {
					want[place[pos+i]] = src[i]
				}
				if got := c.CopyIn(src); got != m || !bytes.Equal(arena, want) {
					t.Fatalf("CopyIn took %d of %d, or wrote elsewhere", got, m)
				}
				copy(flat[pos:], src[:m])
				pos += m
			}
		}
	})
}

func TestCursorZeroValue(t *testing.T) {
	var c Cursor
	if c.Left() != 0 || c.Next(5) != nil || !c.Seek(0) || c.Seek(1) || c.CopyIn([]byte{1}) != 0 ||
		c.CopyOut(make([]byte, 1)) != 0 {
		t.Error("a zero Cursor is at the end of an empty list")
	}
	tb, pd := newTable(t)
	r := mustRegister(t, pd, RegionAttr{Bytes: []byte("abc"), IOVASet: true, Access: LocalWrite})
	var l SGL
	wantFault(t, tb.Resolve(pd, []SGE{{0, 3, r.LKey()}}, 0, &l), FaultNone)
	c = l.Cursor()
	if c.Next(0) != nil || c.Next(-1) != nil || c.Pos() != 0 {
		t.Error("nothing asked, something given")
	}
	if c.Seek(1 << 63) {
		t.Error("seek far past the end")
	}
}
