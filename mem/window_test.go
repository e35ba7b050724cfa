package mem

import (
	"fmt"
	"math"
	"testing"

	"github.com/goroce/goroce/ib"
)

var allTypes = []WindowType{Type1, Type2A, Type2B}

func TestAllocMW(t *testing.T) {
	tb, pd := newTable(t)
	for _, kind := range []WindowType{0, 4, 255} {
		_, err := tb.AllocMW(pd, kind)
		wantErr(t, err, ErrInvalid, "type")
	}
	for _, kind := range allTypes {
		w := mustMW(t, pd, kind)
		if w.Bound() || w.Len() != 0 || w.Region() != nil || w.PD() != pd || w.Type() != kind || w.RKey() == 0 {
			t.Errorf("fresh window %+v", w)
		}
		// Not bound: nothing is granted, nothing can be invalidated, and no crash (rxe oopses).
		wantFault(t, remote(pd, w.RKey(), 0, 1, RemoteRead), FaultState)
		if f := tb.Invalidate(pd, testQP, w.RKey(), true); f != FaultState && f != FaultType {
			t.Errorf("%v: invalidate unbound: %v", kind, f)
		}
		wantErr(t, w.Dealloc(nil), nil, "")
		wantErr(t, w.Dealloc(nil), ErrDestroyed, "")
		_, err := w.Bind(pd, BindInfo{}, nil)
		wantErr(t, err, ErrDestroyed, "")
		wantFault(t, tb.BindWR(pd, testQP, w, 0, BindInfo{}), FaultKey)
	}
	if pd.Refs() != 0 || tb.Counts() != (Counts{PDs: 1}) {
		t.Errorf("left over: %+v", tb.Counts())
	}
}

// TestBindRules tries every rule of a bind on both kinds of window.
func TestBindRules(t *testing.T) {
	const iova = 0x10000
	for _, tt := range []struct {
		name   string
		access Access // of the region, fullMR if 0
		info   BindInfo
		want   Fault
		arg    string // blamed by Bind
	}{
		{name: "whole", info: BindInfo{Addr: iova, Length: 4096, Access: allRemote}},
		{name: "part", info: BindInfo{Addr: iova + 5, Length: 7, Access: RemoteRead}},
		{name: "no rights", info: BindInfo{Addr: iova, Length: 1}},
		{name: "last byte", info: BindInfo{Addr: iova + 4095, Length: 1, Access: RemoteRead}},
		{name: "region without remote rights", access: LocalWrite | MWBind,
			info: BindInfo{Addr: iova, Length: 64, Access: allRemote}},
		{name: "read of a region without local write", access: MWBind,
			info: BindInfo{Addr: iova, Length: 64, Access: RemoteRead}},
		{name: "flush as the region", access: MWBind | FlushGlobal,
			info: BindInfo{Addr: iova, Length: 64, Access: FlushGlobal}},

		{name: "before", info: BindInfo{Addr: iova - 1, Length: 2}, want: FaultBounds, arg: "Length"},
		{name: "past the end", info: BindInfo{Addr: iova, Length: 4097}, want: FaultBounds, arg: "Length"},
		{name: "behind", info: BindInfo{Addr: iova + 4096, Length: 1}, want: FaultBounds, arg: "Length"},
		{name: "wraps", info: BindInfo{Addr: iova, Length: math.MaxUint64}, want: FaultBounds, arg: "Length"},
		{name: "wraps exactly", info: BindInfo{Addr: iova + 1, Length: math.MaxUint64 - iova},
			want: FaultBounds, arg: "Length"},
		{name: "region not bindable", access: LocalWrite | allRemote,
			info: BindInfo{Addr: iova, Length: 64, Access: RemoteRead}, want: FaultAccess, arg: "Access"},
		{name: "write without local write", access: MWBind | RemoteRead,
			info: BindInfo{Addr: iova, Length: 64, Access: RemoteWrite}, want: FaultAccess, arg: "Access"},
		{name: "atomic without local write", access: MWBind | RemoteRead,
			info: BindInfo{Addr: iova, Length: 64, Access: RemoteAtomic}, want: FaultAccess, arg: "Access"},
		{name: "local right", info: BindInfo{Addr: iova, Length: 64, Access: LocalWrite},
			want: FaultAccess, arg: "Access"},
		{name: "bind right", info: BindInfo{Addr: iova, Length: 64, Access: MWBind}, want: FaultAccess, arg: "Access"},
		{name: "unknown right", info: BindInfo{Addr: iova, Length: 64, Access: 1 << 15},
			want: FaultAccess, arg: "Access"},
		{name: "flush beyond the region", info: BindInfo{Addr: iova, Length: 64, Access: FlushGlobal},
			want: FaultAccess, arg: "Access"},
	} {
		for _, kind := range allTypes {
			t.Run(fmt.Sprint(tt.name, " ", kind), func(t *testing.T) {
				tb, pd := newTable(t)
				if tt.access == 0 {
					tt.access = fullMR
				}
				r := mustRegion(t, pd, 4096, iova, tt.access)
				w := mustMW(t, pd, kind)
				info := tt.info
				info.Region = r
				old, key := w.RKey(), NextRKey(w.RKey())
				var f Fault
				if kind == Type1 {
					var err error
					if key, err = w.Bind(pd, info, nil); tt.want == FaultNone {
						wantErr(t, err, nil, "")
					} else {
						wantErr(t, err, tt.want, tt.arg)
						f = tt.want
					}
				} else {
					f = tb.BindWR(pd, testQP, w, key, info)
				}
				wantFault(t, f, tt.want)
				if f != FaultNone {
					if w.Bound() || w.RKey() != old || r.Windows() != 0 || len(tb.onQP) != 0 {
						t.Error("a refused bind changed something")
					}
					return
				}
				if !w.Bound() || w.RKey() != key || key == old || r.Windows() != 1 ||
					w.Region() != r || w.Len() != info.Length || w.Access() != info.Access {
					t.Errorf("window %+v", w)
				}
				if tb.keys.lookup(uint32(old)) != nil {
					t.Error("the old key still matches")
				}
				// Each right alone: granted iff the window has it, whatever the region has.
				for right := RemoteWrite; right <= FlushPersistent; right <<= 1 {
					if right&remoteAccess == 0 {
						continue
					}
					want := FaultNone
					if info.Access&right == 0 {
						want = FaultAccess
					}
					wantFault(t, remote(pd, key, info.Addr, 1, right), want)
				}
			})
		}
	}
}

func TestBindWrongObjects(t *testing.T) {
	tb, pd := newTable(t)
	otherPD := mustPD(t, tb)
	r := mustRegion(t, pd, 64, 0, fullMR)
	foreign := mustRegion(t, otherPD, 64, 0, fullMR)
	zero := mustRegion(t, pd, 64, 0, fullMR|ZeroBased)
	gone := mustRegion(t, pd, 64, 0, fullMR)
	wantErr(t, gone.Deregister(nil), nil, "")
	tb2, pd2 := newTable(t)
	alien := mustRegion(t, pd2, 64, 0, fullMR)
	info := func(r *Region) BindInfo { return BindInfo{Region: r, Length: 8, Access: RemoteRead} }

	w1 := mustMW(t, pd, Type1)
	for _, tt := range []struct {
		r    *Region
		want Fault
		arg  string
	}{
		{nil, FaultKey, "Region"}, {gone, FaultKey, "Region"}, {alien, FaultKey, "Region"},
		{foreign, FaultPD, "Region"}, {zero, FaultAccess, "Access"},
	} {
		_, err := w1.Bind(pd, info(tt.r), nil)
		wantErr(t, err, tt.want, tt.arg)
	}
	_, err := w1.Bind(otherPD, info(r), nil)
	wantErr(t, err, FaultPD, "pd")
	zb := info(r)
	zb.Access |= ZeroBased
	_, err = w1.Bind(pd, zb, nil)
	wantErr(t, err, FaultAccess, "Access")
	wantFault(t, tb.BindWR(pd, testQP, w1, NextRKey(w1.RKey()), info(r)), FaultType)
	wantFault(t, tb.BindWR(pd, testQP, nil, 0, info(r)), FaultKey)

	for _, kind := range []WindowType{Type2A, Type2B} {
		w2 := mustMW(t, pd, kind)
		key := NextRKey(w2.RKey())
		_, err = w2.Bind(pd, info(r), nil)
		wantErr(t, err, FaultType, "")
		for _, tt := range []struct {
			pd   *PD
			key  ib.RKey
			info BindInfo
			want Fault
		}{
			{otherPD, key, info(r), FaultPD},
			{otherPD, key, info(foreign), FaultPD},
			{pd, key, info(foreign), FaultPD},
			{pd, key, info(nil), FaultKey},
			{pd, key, info(gone), FaultKey},
			{pd, key, info(alien), FaultKey},
			{pd, key, info(zero), FaultAccess},
			{pd, key ^ 0x100, info(r), FaultKey},        // another index
			{pd, 0, info(r), FaultKey},                  //
			{pd, r.RKey(), info(r), FaultKey},           // the region's
			{pd, key, BindInfo{Region: r}, FaultBounds}, // no unbinding by zero length
		} {
			wantFault(t, tb.BindWR(tt.pd, testQP, w2, tt.key, tt.info), tt.want)
		}
		wantFault(t, tb2.BindWR(pd, testQP, w2, key, info(r)), FaultKey)
		// The same low byte again is allowed; bound twice is not.
		wantFault(t, tb.BindWR(pd, testQP, w2, w2.RKey(), info(r)), FaultNone)
		wantFault(t, tb.BindWR(pd, testQP, w2, key, info(r)), FaultState)
		wantErr(t, w2.Dealloc(nil), nil, "")
	}
	if r.Windows() != 0 || foreign.Windows() != 0 {
		t.Error("windows left on regions")
	}
}

// The window bounds the access, not the region (rxe checks only the region).
func TestWindowRange(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 4096, 0x10000, fullMR)
	for _, kind := range allTypes {
		for _, zero := range []Access{0, ZeroBased} {
			if kind == Type1 && zero != 0 {
				continue
			}
			w := mustMW(t, pd, kind)
			key := mustBind(t, w, BindInfo{Region: r, Addr: 0x10100, Length: 256, Access: allRemote | zero})
			first := uint64(0x10100)
			if zero != 0 {
				first = 0
			}
			for _, tt := range []struct {
				va   uint64
				n    uint32
				want Fault
			}{
				{first, 256, FaultNone}, {first, 1, FaultNone}, {first + 255, 1, FaultNone},
				{first - 1, 1, FaultBounds}, {first - 1, 257, FaultBounds}, {first, 257, FaultBounds},
				{first + 256, 1, FaultBounds}, {first + 255, 2, FaultBounds},
				{first ^ 1<<63, 1, FaultBounds}, {math.MaxUint64, 1, FaultBounds}, {math.MaxUint64, 2, FaultBounds},
				{first + 0x800, 1, FaultBounds}, // in the region, not in the window
			} {
				v, f := tb.Remote(pd, testQP, key, tt.va, tt.n, RemoteWrite)
				wantFault(t, f, tt.want)
				if f != FaultNone {
					continue
				}
				if off := tt.va - first + 0x100; &v.Bytes[0] != &r.Bytes()[off] ||
					len(v.Bytes) != int(tt.n) || cap(v.Bytes) != int(tt.n) {
					t.Errorf("%v: wrong bytes for %#x+%d", kind, tt.va, tt.n)
				}
			}
			wantErr(t, w.Dealloc(nil), nil, "")
		}
	}
}

func TestWindowQP(t *testing.T) {
	tb, pd := newTable(t)
	otherPD := mustPD(t, tb)
	r := mustRegion(t, pd, 64, 0, fullMR)
	for _, kind := range allTypes {
		w := mustMW(t, pd, kind)
		key := mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteRead})
		want := FaultQP
		if kind == Type1 {
			want = FaultNone
		}
		_, f := tb.Remote(pd, otherQP, key, 0, 1, RemoteRead)
		wantFault(t, f, want)
		_, f = tb.Remote(otherPD, testQP, key, 0, 1, RemoteRead)
		wantFault(t, f, FaultPD)
		// A window key is for peers only.
		_, f = tb.Local(pd, ib.LKey(key), 0, 1, 0)
		wantFault(t, f, FaultKey)
		wantErr(t, w.Dealloc(nil), nil, "")
	}
}

// pyverbs: deregistration while a window is bound, rereg likewise, dealloc while bound.
func TestRegionWithWindows(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 64, 0, fullMR)
	for _, kind := range allTypes {
		w := mustMW(t, pd, kind)
		key := mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteRead})
		v, f := tb.Remote(pd, testQP, key, 0, 8, RemoteRead)
		wantFault(t, f, FaultNone)
		wantErr(t, r.Deregister(nil), ErrBusy, "")
		for _, what := range []Change{ChangeTranslation, ChangePD, ChangeAccess, changeAll} {
			wantErr(t, r.Reregister(RegionChange{What: what, PD: pd}, nil), ErrBusy, "")
		}
		wantErr(t, pd.Dealloc(), ErrBusy, "")
		wantFault(t, remote(pd, key, 0, 64, RemoteRead), FaultNone) // still works
		wantErr(t, w.Dealloc(nil), nil, "")                         // unbinds
		wantFault(t, remote(pd, key, 0, 64, RemoteRead), FaultKey)
		if v.Valid() || r.Windows() != 0 || tb.Counts().Bound != 0 {
			t.Errorf("%v: valid %v, %d windows", kind, v.Valid(), r.Windows())
		}
	}
	wantErr(t, r.Deregister(nil), nil, "")
}

func TestType1Rebind(t *testing.T) {
	tb, pd := newTable(t)
	a := mustRegion(t, pd, 64, 0, fullMR)
	b := mustRegion(t, pd, 64, 0x1000, fullMR)
	w := mustMW(t, pd, Type1)
	key1 := mustBind(t, w, BindInfo{Region: a, Length: 64, Access: RemoteRead})
	v, _ := tb.Remote(pd, testQP, key1, 0, 8, RemoteRead)
	key2 := mustBind(t, w, BindInfo{Region: b, Addr: 0x1000, Length: 64, Access: RemoteWrite})
	wantFault(t, remote(pd, key1, 0, 1, RemoteRead), FaultKey)
	wantFault(t, remote(pd, key2, 0x1000, 1, RemoteRead), FaultAccess)
	wantFault(t, remote(pd, key2, 0x1000, 1, RemoteWrite), FaultNone)
	if v.Valid() || a.Windows() != 0 || b.Windows() != 1 || key1>>8 == key2>>8 {
		t.Error("rebind left the old binding, or the old index")
	}
	// A refused rebind keeps the binding.
	_, err := w.Bind(pd, BindInfo{Region: b, Addr: 0x1000, Length: 65, Access: RemoteWrite}, nil)
	wantErr(t, err, FaultBounds, "Length")
	wantFault(t, remote(pd, key2, 0x1000, 64, RemoteWrite), FaultNone)
	// Zero length unbinds, whatever the rest says.
	key3, err := w.Bind(pd, BindInfo{Access: ZeroBased | 1<<30, Addr: 77}, nil)
	wantErr(t, err, nil, "")
	wantFault(t, remote(pd, key2, 0x1000, 1, RemoteWrite), FaultKey)
	wantFault(t, remote(pd, key3, 0x1000, 1, RemoteWrite), FaultState)
	if w.Bound() || w.Region() != nil || w.Len() != 0 || w.Access() != 0 || b.Windows() != 0 || tb.Counts().Bound != 0 {
		t.Error("not unbound")
	}
	// Unbinding again is fine.
	_, err = w.Bind(pd, BindInfo{}, nil)
	wantErr(t, err, nil, "")
}

func TestInvalidate(t *testing.T) {
	for _, remotely := range []bool{false, true} {
		tb, pd := newTable(t)
		otherPD := mustPD(t, tb)
		r := mustRegion(t, pd, 64, 0, fullMR)
		inv := func(pd *PD, qpn ib.QPN, key ib.RKey) Fault { return tb.Invalidate(pd, qpn, key, remotely) }

		wantFault(t, inv(pd, testQP, r.RKey()), FaultType) // a user's region
		wantFault(t, inv(otherPD, testQP, r.RKey()), FaultPD)
		wantFault(t, inv(pd, testQP, r.RKey()^1), FaultKey)
		wantFault(t, inv(pd, testQP, 0), FaultKey)
		wantFault(t, remote(pd, r.RKey(), 0, 64, allRemote), FaultNone)

		w1 := mustMW(t, pd, Type1)
		k1 := mustBind(t, w1, BindInfo{Region: r, Length: 64, Access: RemoteRead})
		wantFault(t, inv(pd, testQP, k1), FaultType)
		wantFault(t, remote(pd, k1, 0, 64, RemoteRead), FaultNone)

		for _, kind := range []WindowType{Type2A, Type2B} {
			w := mustMW(t, pd, kind)
			first := w.RKey()
			wantFault(t, inv(pd, testQP, first), FaultState) // rxe oopses here
			key := mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteRead})
			wantFault(t, inv(pd, testQP, first), FaultKey) // the variant before
			wantFault(t, inv(pd, otherQP, key), FaultQP)
			wantFault(t, inv(otherPD, testQP, key), FaultPD)
			v, f := tb.Remote(pd, testQP, key, 0, 64, RemoteRead)
			wantFault(t, f, FaultNone)
			wantFault(t, inv(pd, testQP, key), FaultNone)
			if v.Valid() || w.Bound() || r.Windows() != 1 {
				t.Error("not invalidated")
			}
			wantFault(t, remote(pd, key, 0, 1, RemoteRead), FaultState)
			wantFault(t, inv(pd, testQP, key), FaultState)
			// Free again: bound anew, on another QP, the old key is dead.
			again := NextRKey(key)
			wantFault(t, tb.BindWR(pd, otherQP, w, again, BindInfo{Region: r, Addr: 8, Length: 8, Access: RemoteRead}),
				FaultNone)
			_, f = tb.Remote(pd, otherQP, key, 8, 8, RemoteRead)
			wantFault(t, f, FaultKey)
			_, f = tb.Remote(pd, otherQP, again, 8, 8, RemoteRead)
			wantFault(t, f, FaultNone)
			if v.Valid() {
				t.Error("an old view came alive with a new bind")
			}
			wantErr(t, w.Dealloc(nil), nil, "")
		}
	}
}

// A QP number that is used again must not inherit windows.
func TestDetachQP(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 64, 0, fullMR)
	info := BindInfo{Region: r, Length: 64, Access: RemoteRead}
	var ws []*Window
	for range 5 {
		w := mustMW(t, pd, Type2B)
		mustBind(t, w, info)
		ws = append(ws, w)
	}
	away := mustMW(t, pd, Type2B)
	wantFault(t, tb.BindWR(pd, otherQP, away, NextRKey(away.RKey()), info), FaultNone)
	w1 := mustMW(t, pd, Type1)
	mustBind(t, w1, info)

	// Unlink first, middle and last of the list.
	wantErr(t, ws[4].Dealloc(nil), nil, "")
	wantFault(t, tb.Invalidate(pd, testQP, ws[2].RKey(), false), FaultNone)
	wantErr(t, ws[0].Dealloc(nil), nil, "")

	a := mustMW(t, pd, Type2A)
	mustBind(t, a, info)
	wantErr(t, tb.DetachQP(testQP), ErrBusy, "")
	if !ws[1].Bound() || !ws[3].Bound() {
		t.Fatal("a refused detach unbound windows")
	}
	wantFault(t, tb.Invalidate(pd, testQP, a.RKey(), false), FaultNone)
	wantErr(t, tb.DetachQP(testQP), nil, "")
	if ws[1].Bound() || ws[3].Bound() || !away.Bound() || !w1.Bound() {
		t.Error("wrong windows unbound")
	}
	wantFault(t, remote(pd, ws[1].RKey(), 0, 1, RemoteRead), FaultState)
	wantErr(t, tb.DetachQP(testQP), nil, "")
	wantErr(t, tb.DetachQP(otherQP), nil, "")
	if len(tb.onQP) != 0 || r.Windows() != 1 {
		t.Errorf("%d QPs with windows, %d windows on the region", len(tb.onQP), r.Windows())
	}
}

func TestNextRKey(t *testing.T) {
	for in, want := range map[ib.RKey]ib.RKey{
		0x12345600: 0x12345601, 0x123456FF: 0x12345600, 0xFFFFFFFF: 0xFFFFFF00,
	} {
		if got := NextRKey(in); got != want {
			t.Errorf("NextRKey(%#x) = %#x, want %#x", uint32(in), uint32(got), uint32(want))
		}
	}
}
