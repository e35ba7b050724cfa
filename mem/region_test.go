package mem

import (
	"errors"
	"math"
	"testing"

	"github.com/goroce/goroce/ib"
)

func TestRegister(t *testing.T) {
	persist := func([]byte) error { return nil }
	for _, tt := range []struct {
		name string
		a    RegionAttr
		kind error
		arg  string
		iova uint64 // expected; 1 stands for the real address
		rkey bool   // whether there is one
	}{
		{name: "empty", a: RegionAttr{}},
		{name: "empty with rights", a: RegionAttr{Access: fullMR}, rkey: true},
		{name: "local only", a: RegionAttr{Bytes: make([]byte, 64), Access: LocalWrite}, iova: 1},
		{name: "bind only", a: RegionAttr{Bytes: make([]byte, 64), Access: MWBind}, iova: 1},
		{name: "read only", a: RegionAttr{Bytes: make([]byte, 64), Access: RemoteRead}, iova: 1, rkey: true},
		{name: "all", a: RegionAttr{Bytes: make([]byte, 64), Access: regionAccess &^ ZeroBased, Persist: persist},
			iova: 1, rkey: true},
		{name: "iova", a: RegionAttr{Bytes: make([]byte, 64), IOVA: 0xDEAD_BEEF_0001, IOVASet: true},
			iova: 0xDEAD_BEEF_0001},
		{name: "iova 0", a: RegionAttr{Bytes: make([]byte, 64), IOVASet: true}},
		{name: "iova not set is ignored", a: RegionAttr{Bytes: make([]byte, 64), IOVA: 5}, iova: 1},
		{name: "zero based", a: RegionAttr{Bytes: make([]byte, 64), Access: ZeroBased}},
		{name: "zero based, iova 0", a: RegionAttr{Bytes: make([]byte, 64), Access: ZeroBased, IOVASet: true}},
		{name: "zero based, iova", a: RegionAttr{Access: ZeroBased, IOVA: 8, IOVASet: true},
			kind: ErrInvalid, arg: "IOVA"},
		{name: "last address", a: RegionAttr{Bytes: make([]byte, 64), IOVA: math.MaxUint64 - 63, IOVASet: true},
			iova: math.MaxUint64 - 63},
		{name: "wraps", a: RegionAttr{Bytes: make([]byte, 64), IOVA: math.MaxUint64 - 62, IOVASet: true},
			kind: ErrInvalid, arg: "IOVA"},
		{name: "wraps far", a: RegionAttr{Bytes: make([]byte, 64), IOVA: math.MaxUint64, IOVASet: true},
			kind: ErrInvalid, arg: "IOVA"},
		{name: "empty at the top", a: RegionAttr{IOVA: math.MaxUint64, IOVASet: true}, iova: math.MaxUint64},
		{name: "remote write without local", a: RegionAttr{Access: RemoteWrite}, kind: ErrInvalid, arg: "Access"},
		{name: "atomic without local", a: RegionAttr{Access: RemoteAtomic | RemoteRead},
			kind: ErrInvalid, arg: "Access"},
		{name: "unknown flag", a: RegionAttr{Access: 0x400}, kind: ErrInvalid, arg: "Access"},
		{name: "unknown high flag", a: RegionAttr{Access: 1 << 31}, kind: ErrInvalid, arg: "Access"},
		{name: "optional flag", a: RegionAttr{Access: LocalWrite | 1<<20}},
		{name: "persistent without means", a: RegionAttr{Access: FlushPersistent}, kind: ErrInvalid, arg: "Access"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tb, pd := newTable(t)
			r, err := tb.Register(pd, tt.a)
			wantErr(t, err, tt.kind, tt.arg)
			if err != nil {
				if tb.Counts().Regions != 0 || pd.Refs() != 0 || tb.keys.occupied != 0 {
					t.Error("a failed registration left something behind")
				}
				return
			}
			iova := tt.iova
			if iova == 1 {
				iova = addressOf(tt.a.Bytes)
			}
			if r.IOVA() != iova || r.Len() != uint64(len(tt.a.Bytes)) || r.PD() != pd ||
				r.Access() != tt.a.Access&^OptionalAccess || len(r.Bytes()) != len(tt.a.Bytes) {
				t.Errorf("region %#x+%d %v", r.IOVA(), r.Len(), r.Access())
			}
			if r.LKey() == 0 || (r.RKey() != 0) != tt.rkey {
				t.Errorf("keys %#x, %#x", r.LKey(), r.RKey())
			}
			wantErr(t, r.Deregister(nil), nil, "")
			wantErr(t, r.Deregister(nil), ErrDestroyed, "")
			if r.LKey() != 0 || r.RKey() != 0 || r.Bytes() != nil || r.Registered() {
				t.Error("deregistered region still has keys or bytes")
			}
		})
	}
}

// Bytes past the length of the registered slice belong to someone else.
func TestRegionDoesNotUseSpareCapacity(t *testing.T) {
	tb, pd := newTable(t)
	buf := make([]byte, 128)
	r := mustRegister(t, pd, RegionAttr{Bytes: buf[:64], Access: fullMR | ZeroBased})
	if cap(r.Bytes()) != 64 {
		t.Error("capacity reaches past the region")
	}
	wantFault(t, remote(pd, r.RKey(), 64, 1, RemoteRead), FaultBounds)
	b, f := tb.Local(pd, r.LKey(), 10, 20, 0)
	wantFault(t, f, FaultNone)
	if len(b) != 20 || cap(b) != 20 {
		t.Errorf("len %d cap %d, want 20 20", len(b), cap(b))
	}
}

// The key is gone and the memory released in the same call, also where others hold views of it.
func TestDeregisterReleases(t *testing.T) {
	tb, pd := newTable(t)
	released := 0
	r := mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 64), IOVASet: true, Access: fullMR,
		OnRelease: func() { released++ }})
	v, f := tb.Remote(pd, testQP, r.RKey(), 0, 64, RemoteWrite)
	wantFault(t, f, FaultNone)
	key := r.RKey()
	wantErr(t, r.Deregister(nil), nil, "")
	wantFault(t, remote(pd, key, 0, 1, RemoteRead), FaultKey)
	if v.Valid() || released != 1 || tb.Counts().Regions != 0 {
		t.Fatalf("valid %v, released %d, %+v", v.Valid(), released, tb.Counts())
	}
	wantErr(t, pd.Dealloc(), nil, "")
}

func TestReregister(t *testing.T) {
	tb, pd := newTable(t)
	other := mustPD(t, tb)
	r := mustRegion(t, pd, 64, 0x1000, fullMR)
	key, seen := r.RKey(), map[uint32]bool{uint32(r.LKey()): true}
	check := func(fresh bool) {
		t.Helper()
		if fresh {
			if remote(r.PD(), key, r.IOVA(), 1, 0x4) != FaultKey {
				t.Error("the old key still works")
			}
			if seen[uint32(r.LKey())] {
				t.Error("the new key is an old one")
			}
		} else if r.RKey() != key {
			t.Error("a refused change changed the key")
		}
		seen[uint32(r.LKey())], key = true, r.RKey()
	}

	released := 0
	attr := RegionAttr{Bytes: make([]byte, 128), IOVA: 0x2000, IOVASet: true, OnRelease: func() { released++ }}
	v, f := tb.Remote(pd, testQP, key, 0x1000, 64, RemoteRead)
	wantFault(t, f, FaultNone)
	wantErr(t, r.Reregister(RegionChange{What: ChangeTranslation, RegionAttr: attr}, nil), nil, "")
	check(true)
	if v.Valid() {
		t.Error("a view survives reregistration")
	}
	wantFault(t, remote(pd, key, 0x1000, 1, RemoteRead), FaultBounds)
	wantFault(t, remote(pd, key, 0x2000, 128, allRemote), FaultNone)
	if r.Access() != fullMR {
		t.Error("access changed unasked")
	}

	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: RemoteRead}}, nil), nil, "")
	check(true)
	wantFault(t, remote(pd, key, 0x2000, 128, RemoteRead), FaultNone)
	wantFault(t, remote(pd, key, 0x2000, 128, RemoteWrite), FaultAccess)
	if released != 0 {
		t.Error("a change of access released the memory")
	}

	wantErr(t, r.Reregister(RegionChange{What: ChangePD, PD: other}, nil), nil, "")
	check(true)
	wantFault(t, remote(pd, key, 0x2000, 1, RemoteRead), FaultPD)
	wantFault(t, remote(other, key, 0x2000, 1, RemoteRead), FaultNone)
	if pd.Refs() != 0 || other.Refs() != 1 || r.PD() != other {
		t.Error("reference did not move to the new PD")
	}

	// All at once, back again, and to zero based.
	wantErr(t, r.Reregister(RegionChange{What: changeAll, PD: pd,
		RegionAttr: RegionAttr{Bytes: make([]byte, 32), Access: fullMR | ZeroBased}}, nil), nil, "")
	check(true)
	wantFault(t, remote(pd, key, 0, 32, allRemote), FaultNone)
	if released != 1 {
		t.Errorf("old memory released %d times", released)
	}
	// From zero based to real addresses and back, without touching the memory.
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: fullMR}}, nil), nil, "")
	check(true)
	if r.IOVA() != addressOf(r.Bytes()) {
		t.Errorf("IOVA %#x, want the address", r.IOVA())
	}
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: fullMR | ZeroBased}}, nil),
		nil, "")
	check(true)
	if r.IOVA() != 0 {
		t.Errorf("IOVA %#x, want 0", r.IOVA())
	}
	wantErr(t, r.Reregister(RegionChange{What: ChangePD, PD: pd}, nil), nil, "")
	check(true)
	if r.IOVA() != 0 || pd.Refs() != 1 {
		t.Errorf("IOVA %#x, %d refs", r.IOVA(), pd.Refs())
	}

	dead := mustPD(t, tb)
	wantErr(t, dead.Dealloc(), nil, "")
	stranger, _ := newTable(t)
	for _, bad := range []struct {
		c    RegionChange
		kind error
		arg  string
	}{
		{RegionChange{}, ErrInvalid, "What"},
		{RegionChange{What: 8}, ErrInvalid, "What"},
		{RegionChange{What: ChangePD}, ErrInvalid, "pd"},
		{RegionChange{What: ChangePD, PD: dead}, ErrDestroyed, "pd"},
		{RegionChange{What: ChangePD, PD: mustPD(t, stranger)}, ErrInvalid, "pd"},
		{RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: RemoteWrite}}, ErrInvalid, "Access"},
		{RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: 1 << 30}}, ErrInvalid, "Access"},
		{RegionChange{What: ChangeTranslation, RegionAttr: RegionAttr{Bytes: make([]byte, 8), IOVA: 8, IOVASet: true}},
			ErrInvalid, "IOVA"},
	} {
		wantErr(t, r.Reregister(bad.c, nil), bad.kind, bad.arg)
		check(false)
		wantFault(t, remote(pd, key, 0, 32, allRemote), FaultNone)
	}

	wantErr(t, r.Reregister(RegionChange{
		What: ChangeAccess, RegionAttr: RegionAttr{Access: RemoteRead | ZeroBased},
	}, nil), nil, "")
	check(true)
	wantErr(t, r.Deregister(nil), nil, "")
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess}, nil), ErrDestroyed, "")
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// A region may keep its key when only its rights and its domain change: what was granted before is
// gone all the same.
func TestReregisterKeepsKey(t *testing.T) {
	tb, pd := newTable(t)
	other := mustPD(t, tb)
	r := mustRegion(t, pd, 64, 0x1000, LocalWrite)
	key := ib.RKey(r.LKey())
	wantFault(t, remote(pd, key, 0x1000, 1, RemoteWrite), FaultAccess)
	wantErr(t, r.Reregister(RegionChange{
		What: ChangeAccess, KeepKey: true, RegionAttr: RegionAttr{Access: fullMR},
	}, nil), nil, "")
	v, f := tb.Remote(pd, testQP, key, 0x1000, 64, RemoteWrite)
	wantFault(t, f, FaultNone)
	quiesced := 0
	wantErr(t, r.Reregister(RegionChange{What: ChangePD | ChangeAccess, PD: other, KeepKey: true,
		RegionAttr: RegionAttr{Access: LocalWrite | RemoteRead}},
		func() { quiesced++ }), nil, "")
	if v.Valid() || quiesced == 0 {
		t.Errorf("a view survives reregistration: %v, quiesced %d times", v.Valid(), quiesced)
	}
	wantFault(t, remote(pd, key, 0x1000, 1, RemoteRead), FaultPD)
	wantFault(t, remote(other, key, 0x1000, 1, RemoteWrite), FaultAccess)
	wantFault(t, remote(other, key, 0x1000, 64, RemoteRead), FaultNone)
	if r.RKey() != key || r.PD() != other || pd.Refs() != 0 || other.Refs() != 1 {
		t.Errorf("key %#x, want %#x; %d and %d references", r.RKey(), key, pd.Refs(), other.Refs())
	}
	bytes := make([]byte, 64)
	wantErr(t, r.Reregister(RegionChange{
		What: ChangeTranslation, KeepKey: true, RegionAttr: RegionAttr{Bytes: bytes},
	}, nil), ErrInvalid, "KeepKey")
	wantFault(t, remote(other, key, 0x1000, 64, RemoteRead), FaultNone)
	wantErr(t, r.Reregister(RegionChange{What: ChangePD, PD: pd}, nil), nil, "") // without it: another key
	wantFault(t, remote(pd, key, 0x1000, 1, RemoteRead), FaultKey)
	wantErr(t, r.Deregister(nil), nil, "")
	if pd.Refs() != 0 || other.Refs() != 0 {
		t.Errorf("%d and %d references are left", pd.Refs(), other.Refs())
	}
}

func TestPersist(t *testing.T) {
	tb, pd := newTable(t)
	broken := errors.New("disk full")
	var got []byte
	var fail error
	r := mustRegister(t, pd, RegionAttr{Bytes: []byte("0123456789"), Access: FlushGlobal | FlushPersistent | ZeroBased,
		Persist: func(b []byte) error { got = b; return fail }})
	v, f := tb.Remote(pd, testQP, r.RKey(), 2, 3, FlushPersistent)
	wantFault(t, f, FaultNone)
	if err := v.Persist(); err != nil || string(got) != "234" {
		t.Errorf("persisted %q, %v", got, err)
	}
	fail = broken
	if err := v.Persist(); err != broken {
		t.Errorf("error %v", err)
	}
	whole, f := tb.RemoteWhole(pd, testQP, r.RKey(), FlushPersistent)
	wantFault(t, f, FaultNone)
	if whole.Persist(); string(got) != "0123456789" {
		t.Errorf("persisted %q, want all", got)
	}
	wantErr(t, r.Deregister(nil), nil, "")
	if err := v.Persist(); err != FaultState {
		t.Errorf("persist after deregistration: %v", err)
	}
	plain := mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 8), Access: FlushGlobal | ZeroBased})
	v, f = tb.Remote(pd, testQP, plain.RKey(), 0, 8, FlushGlobal)
	wantFault(t, f, FaultNone)
	if err := v.Persist(); err != FaultAccess {
		t.Errorf("persist of plain memory: %v", err)
	}
	if err := (View{}).Persist(); err != nil {
		t.Errorf("persist of nothing: %v", err)
	}
}

// A region can have the key that it had elsewhere, once.
func TestWantedKey(t *testing.T) {
	tb := NewTable(script(0x11223344), Limits{})
	pd, err := tb.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	register := func(key uint32) (ib.LKey, error) {
		r, err := tb.Register(pd, RegionAttr{Bytes: make([]byte, 8), Key: key})
		if err != nil {
			return 0, err
		}
		return r.LKey(), nil
	}
	if key, err := register(0xAABBCCDD); key != 0xAABBCCDD {
		t.Errorf("%#x, %v", key, err)
	}
	if _, err := register(0xAABBCC00); !errors.Is(err, ErrBusy) {
		t.Errorf("the index is taken, but: %v", err)
	}
	if _, err := register(0xFF); !errors.Is(err, ErrInvalid) {
		t.Errorf("no key is as low, but: %v", err)
	}
	for i := range uint32(1000) { // room is made for them
		if key, err := register((i + 1) << 8); key != ib.LKey((i+1)<<8) {
			t.Fatalf("%#x, %v", key, err)
		}
	}
	if key, err := register(0); key != 0x11223344 {
		t.Errorf("%#x, %v", key, err)
	}
}
