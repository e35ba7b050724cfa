package mem

import (
	"strings"
	"testing"
)

// The values are those of ibv_access_flags: they cross API boundaries.
func TestAccessValues(t *testing.T) {
	for _, tt := range []struct {
		got  Access
		want uint32
		name string
	}{
		{LocalWrite, 0x1, "LOCAL_WRITE"}, {RemoteWrite, 0x2, "REMOTE_WRITE"},
		{RemoteRead, 0x4, "REMOTE_READ"}, {RemoteAtomic, 0x8, "REMOTE_ATOMIC"},
		{MWBind, 0x10, "MW_BIND"}, {ZeroBased, 0x20, "ZERO_BASED"},
		{OnDemand, 0x40, "ON_DEMAND"}, {HugeTLB, 0x80, "HUGETLB"},
		{FlushGlobal, 0x100, "FLUSH_GLOBAL"}, {FlushPersistent, 0x200, "FLUSH_PERSISTENT"},
	} {
		if uint32(tt.got) != tt.want || tt.got.String() != tt.name {
			t.Errorf("%#x %q, want %#x %q", uint32(tt.got), tt.got, tt.want, tt.name)
		}
	}
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		Access(0).String():                           "0",
		(LocalWrite | RemoteRead).String():           "LOCAL_WRITE|REMOTE_READ",
		(LocalWrite | 1<<20).String():                "LOCAL_WRITE|0x100000",
		Access(1 << 31).String():                     "0x80000000",
		FaultBounds.String():                         "out of bounds",
		Fault(200).String():                          "Fault(200)",
		Type1.String():                               "type 1",
		Type2A.String():                              "type 2A",
		Type2B.String():                              "type 2B",
		WindowType(9).String():                       "WindowType(9)",
		opErr("x", "", "", ErrBusy).Error():          "mem: x: in use",
		opErr("x", "a", "why", ErrInvalid).Error():   "mem: x: a: invalid argument (why)",
		opErr("x", "a", "", FaultPD).Error():         "mem: x: a: wrong protection domain",
		opErr("x", "", "gone", ErrDestroyed).Error(): "mem: x: already destroyed (gone)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	seen := map[string]bool{}
	for f := FaultNone; f < numFaults; f++ {
		if s := f.Error(); s == "" || strings.HasPrefix(s, "Fault(") || seen[s] {
			t.Errorf("fault %d has no name of its own: %q", f, s)
		} else {
			seen[s] = true
		}
	}
}

func TestAccessHas(t *testing.T) {
	if a := LocalWrite | RemoteRead; !a.Has(LocalWrite) || !a.Has(a) || !a.Has(0) || a.Has(a|MWBind) {
		t.Error("Has is not the subset relation")
	}
}
