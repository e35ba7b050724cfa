package mem

import "testing"

// Clear takes all regions and windows of its PD, bound or not, however many, and
// nothing of another one.
func TestClear(t *testing.T) {
	for _, regions := range []int{0, 1, 2, 50} {
		for _, windows := range []int{0, 1, 2, 50} {
			tb, pd := newTable(t)
			other, err := tb.AllocPD()
			wantErr(t, err, nil, "")
			kept := mustRegister(t, other, RegionAttr{Bytes: make([]byte, 64), Access: fullMR | MWBind})
			released := 0
			var last *Region
			for range regions {
				last = mustRegister(t, pd,
					RegionAttr{Bytes: make([]byte, 64), Access: fullMR | MWBind, OnRelease: func() { released++ }})
			}
			for i := range windows {
				w, err := tb.AllocMW(pd, Type1)
				wantErr(t, err, nil, "")
				if last != nil && i%2 == 0 {
					_, err = w.Bind(pd, BindInfo{Region: last, Addr: last.IOVA(), Length: 8, Access: RemoteRead}, nil)
					wantErr(t, err, nil, "")
				}
			}
			pd.Clear(nil)
			if released != regions {
				t.Errorf("%d of %d regions released", released, regions)
			}
			wantErr(t, pd.Dealloc(), nil, "")
			if _, f := tb.Remote(other, testQP, kept.RKey(), kept.IOVA(), 8, RemoteRead); f != FaultNone {
				t.Errorf("the other PD's region: %v", f)
			}
		}
	}
}
