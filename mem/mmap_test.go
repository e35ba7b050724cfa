//go:build unix && (amd64 || arm64)

package mem

import (
	"errors"
	"syscall"
	"testing"
)

// Regions longer than 32 bits can count, in memory that must not be touched: the checks look at
// addresses only.
func TestRegionOverFourGiB(t *testing.T) {
	const size = 5 << 30
	tb, pd := newTable(t)
	buf := mapped(t, size, syscall.PROT_NONE)
	defer syscall.Munmap(buf)
	r := mustRegister(t, pd, RegionAttr{Bytes: buf, Access: fullMR | ZeroBased})
	for _, tt := range []struct {
		va   uint64
		n    uint32
		want Fault
	}{
		{0, MaxAccessBytes, FaultNone},
		{0, MaxAccessBytes + 1, FaultBounds}, // inside, but no message is that long
		{0, 1<<32 - 1, FaultBounds},
		{size - 1<<31, MaxAccessBytes, FaultNone},
		{size - 1<<31 + 1, MaxAccessBytes, FaultBounds},
		{1<<32 + 5, 7, FaultNone},
		{size - 1, 1, FaultNone},
		{size, 1, FaultBounds},
	} {
		v, f := tb.Remote(pd, testQP, r.RKey(), tt.va, tt.n, RemoteRead)
		if f != tt.want {
			t.Fatalf("%#x+%#x: %v, want %v", tt.va, tt.n, f, tt.want)
		}
		if f == FaultNone && (addressOf(v.Bytes) != addressOf(buf)+tt.va || len(v.Bytes) != int(tt.n)) {
			t.Fatalf("%#x+%#x: wrong bytes", tt.va, tt.n)
		}
	}
	v, f := tb.RemoteWhole(pd, testQP, r.RKey(), RemoteRead)
	if f != FaultNone || len(v.Bytes) != size {
		t.Errorf("whole: %d bytes, %v", len(v.Bytes), f)
	}
	// A scatter/gather list of it is longer than 32 bits, too.
	var l SGL
	sges := repeatSGE(SGE{Addr: 1, Length: 1<<32 - 1, LKey: r.LKey()}, MaxSGE)
	wantFault(t, tb.Resolve(pd, sges, LocalWrite, &l), FaultNone)
	c := l.Cursor()
	if want := uint64(MaxSGE * (1<<32 - 1)); l.Len() != want || !c.Seek(want-1) ||
		len(c.Next(8)) != 1 || c.Left() != 0 {
		t.Errorf("list of %d bytes", l.Len())
	}
	wantErr(t, r.Deregister(nil), nil, "")
}

// Mapped memory is unmapped by OnRelease: from then on a list of it is not valid.
func TestMappedMemoryIsUnmapped(t *testing.T) {
	tb, pd := newTable(t)
	buf := mapped(t, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE)
	var l SGL
	err := errors.New("not released")
	r := mustRegister(t, pd, RegionAttr{Bytes: buf, Access: fullMR | ZeroBased, OnRelease: func() {
		if l.Valid() {
			t.Error("the list is valid while the memory goes")
		}
		err = syscall.Munmap(buf)
	}})
	wantFault(t, tb.Resolve(pd, []SGE{{0, 1 << 16, r.LKey()}}, LocalWrite, &l), FaultNone)
	wantErr(t, r.Deregister(nil), nil, "")
	if err != nil {
		t.Error(err)
	}
}
