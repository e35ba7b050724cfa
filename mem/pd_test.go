package mem

import (
	"testing"
)

func TestPDInUse(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 1, 0, fullMR)
	w := mustMW(t, pd, Type2B)
	wantErr(t, pd.Retain(), nil, "")
	wantErr(t, pd.Dealloc(), ErrBusy, "")
	if pd.Refs() != 3 {
		t.Errorf("%d refs, want 3", pd.Refs())
	}
	wantErr(t, r.Deregister(nil), nil, "")
	wantErr(t, pd.Dealloc(), ErrBusy, "")
	wantErr(t, w.Dealloc(nil), nil, "")
	wantErr(t, pd.Dealloc(), ErrBusy, "")
	pd.Release()
	wantErr(t, pd.Dealloc(), nil, "")
	if tb.Counts() != (Counts{}) || len(tb.pds) != 0 {
		t.Errorf("left over: %+v, %d PDs", tb.Counts(), len(tb.pds))
	}
}

// pyverbs: PD destroyed twice.
func TestPDDestroyed(t *testing.T) {
	tb, pd := newTable(t)
	wantErr(t, pd.Dealloc(), nil, "")
	wantErr(t, pd.Dealloc(), ErrDestroyed, "")
	wantErr(t, pd.Retain(), ErrDestroyed, "pd")
	_, err := tb.Register(pd, RegionAttr{})
	wantErr(t, err, ErrDestroyed, "pd")
	_, err = tb.AllocMW(pd, Type1)
	wantErr(t, err, ErrDestroyed, "pd")
	_, err = tb.Register(nil, RegionAttr{})
	wantErr(t, err, ErrInvalid, "pd")
	other, _ := newTable(t)
	_, err = tb.Register(mustPD(t, other), RegionAttr{})
	wantErr(t, err, ErrInvalid, "pd")
}

func TestPDReleaseUnbalanced(t *testing.T) {
	_, pd := newTable(t)
	defer func() {
		if recover() == nil {
			t.Error("Release without Retain went unnoticed")
		}
	}()
	pd.Release()
}

func TestLimits(t *testing.T) {
	tb := NewTable(seeded(3), Limits{PDs: 1, Regions: 2, Windows: 1, RegionBytes: 16})
	pd := mustPD(t, tb)
	_, err := tb.AllocPD()
	wantErr(t, err, ErrLimit, "")
	_, err = tb.Register(pd, RegionAttr{Bytes: make([]byte, 17)})
	wantErr(t, err, ErrLimit, "Bytes")
	r := mustRegion(t, pd, 16, 0, fullMR)
	mustRegion(t, pd, 16, 0, fullMR)
	_, err = tb.Register(pd, RegionAttr{})
	wantErr(t, err, ErrLimit, "")
	// Reregistration needs no room.
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess}, nil), nil, "")
	mustMW(t, pd, Type1)
	_, err = tb.AllocMW(pd, Type1)
	wantErr(t, err, ErrLimit, "")
	// What is freed can be had again.
	wantErr(t, r.Deregister(nil), nil, "")
	mustRegion(t, pd, 1, 0, fullMR)

	def := NewTable(nil, Limits{}).Limits()
	if want := (Limits{
		DefaultMaxPD, DefaultMaxRegions, DefaultMaxWindows, DefaultMaxRegionBytes, DefaultQuarantine,
	}); def != want {
		t.Errorf("defaults %+v, want %+v", def, want)
	}
	const huge = 1 << 30
	if l := NewTable(nil, Limits{Regions: huge, Windows: huge, Quarantine: huge}).
		Limits(); l.Regions+l.Windows+l.Quarantine > maxKeys {
		t.Errorf("limits %+v overflow the key space", l)
	}
}

func TestTableClose(t *testing.T) {
	for _, quarantine := range []int{-1, 3, 1000} {
		tb := NewTable(seeded(4), Limits{Quarantine: quarantine})
		pd := mustPD(t, tb)
		released := 0
		var regions []*Region
		for range 200 {
			regions = append(regions, mustRegister(t, pd, RegionAttr{
				Bytes: make([]byte, 64), IOVASet: true, Access: fullMR, OnRelease: func() { released++ },
			}))
		}
		var windows []*Window
		for i := range 200 {
			w := mustMW(t, pd, []WindowType{Type1, Type2A, Type2B}[i%3])
			mustBind(t, w, BindInfo{Region: regions[i%50], Length: 64, Access: RemoteRead})
			windows = append(windows, w)
		}
		v, f := tb.Remote(pd, testQP, windows[0].RKey(), 0, 64, RemoteRead)
		wantFault(t, f, FaultNone)
		key := regions[60].RKey()

		tb.Close()
		if v.Valid() || remote(pd, key, 0, 1, RemoteRead) != FaultKey {
			t.Error("access after Close")
		}
		if released != 200 || tb.Counts() != (Counts{}) {
			t.Errorf("%d released, left over %+v", released, tb.Counts())
		}
		tb.Close()
		wantErr(t, regions[0].Deregister(nil), ErrDestroyed, "")
		wantErr(t, windows[0].Dealloc(nil), ErrDestroyed, "")
		wantErr(t, pd.Dealloc(), ErrDestroyed, "")
		_, err := tb.AllocPD()
		wantErr(t, err, ErrDestroyed, "")
		_, err = tb.Register(pd, RegionAttr{})
		wantErr(t, err, ErrDestroyed, "")
	}
}
