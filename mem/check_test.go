package mem

import (
	"math"
	"testing"

	"github.com/goroce/goroce/ib"
)

func TestLocal(t *testing.T) {
	tb, pd := newTable(t)
	otherPD := mustPD(t, tb)
	const iova = 0x7FFF_0000_1000
	rw := mustRegion(t, pd, 4096, iova, LocalWrite)
	ro := mustRegion(t, pd, 4096, iova, 0)
	top := mustRegion(t, pd, 16, math.MaxUint64-15, LocalWrite)
	empty := mustRegion(t, pd, 0, iova, LocalWrite)
	for _, tt := range []struct {
		name string
		pd   *PD
		key  ib.LKey
		addr uint64
		n    uint32
		need Access
		want Fault
	}{
		{"whole", pd, rw.LKey(), iova, 4096, LocalWrite, FaultNone},
		{"gather from read only", pd, ro.LKey(), iova, 4096, 0, FaultNone},
		{"scatter to read only", pd, ro.LKey(), iova, 1, LocalWrite, FaultAccess},
		{"last byte", pd, rw.LKey(), iova + 4095, 1, LocalWrite, FaultNone},
		{"past the end", pd, rw.LKey(), iova + 4095, 2, LocalWrite, FaultBounds},
		{"at the end", pd, rw.LKey(), iova + 4096, 1, LocalWrite, FaultBounds},
		{"before", pd, rw.LKey(), iova - 1, 1, LocalWrite, FaultBounds},
		{"around", pd, rw.LKey(), iova - 1, 4098, LocalWrite, FaultBounds},
		{"longest", pd, rw.LKey(), iova, math.MaxUint32, LocalWrite, FaultBounds},
		{"address wraps", pd, rw.LKey(), math.MaxUint64, 2, LocalWrite, FaultBounds},
		{"other PD", otherPD, rw.LKey(), iova, 1, LocalWrite, FaultPD},
		{"other variant", pd, rw.LKey() ^ 1, iova, 1, LocalWrite, FaultKey},
		{"no key", pd, 0, iova, 1, LocalWrite, FaultKey},
		{"no key, length 0", pd, 0, 0, 0, LocalWrite, FaultNone},
		{"wrong key, length 0", otherPD, rw.LKey() ^ 1, 5, 0, LocalWrite, FaultNone},
		{"empty region", pd, empty.LKey(), iova, 1, LocalWrite, FaultBounds},
		{"top of the address space", pd, top.LKey(), math.MaxUint64 - 15, 16, LocalWrite, FaultNone},
		{"last address", pd, top.LKey(), math.MaxUint64, 1, LocalWrite, FaultNone},
		{"wraps to 0", pd, top.LKey(), math.MaxUint64, 2, LocalWrite, FaultBounds},
		{"0 after the top", pd, top.LKey(), 0, 1, LocalWrite, FaultBounds},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, f := tb.Local(tt.pd, tt.key, tt.addr, tt.n, tt.need)
			wantFault(t, f, tt.want)
			if f != FaultNone || tt.n == 0 {
				if b != nil {
					t.Error("memory without permission")
				}
				return
			}
			r := tb.keys.lookup(uint32(tt.key)).mem.region
			if len(b) != int(tt.n) || cap(b) != len(b) || &b[0] != &r.Bytes()[tt.addr-r.IOVA()] {
				t.Error("wrong bytes")
			}
		})
	}
}

func TestRemote(t *testing.T) {
	tb, pd := newTable(t)
	otherPD := mustPD(t, tb)
	const iova = 0x1000
	full := mustRegion(t, pd, 4096, iova, fullMR|FlushGlobal)
	read := mustRegion(t, pd, 4096, iova, RemoteRead)
	local := mustRegion(t, pd, 4096, iova, LocalWrite)
	for _, tt := range []struct {
		name string
		pd   *PD
		key  ib.RKey
		va   uint64
		n    uint32
		need Access
		want Fault
	}{
		{"write", pd, full.RKey(), iova, 4096, RemoteWrite, FaultNone},
		{"read", pd, full.RKey(), iova, 4096, RemoteRead, FaultNone},
		{"atomic", pd, full.RKey(), iova + 8, 8, RemoteAtomic, FaultNone},
		{"flush", pd, full.RKey(), iova + 8, 8, FlushGlobal, FaultNone},
		{"two rights", pd, full.RKey(), iova, 1, RemoteRead | RemoteWrite, FaultNone},
		// A superset is needed: rxe 6.1 is content with one common bit.
		{"one of two rights", pd, read.RKey(), iova, 1, RemoteRead | RemoteWrite, FaultAccess},
		{"flush not granted", pd, full.RKey(), iova, 8, FlushPersistent, FaultAccess},
		{"write to read only", pd, read.RKey(), iova, 1, RemoteWrite, FaultAccess},
		{"asking for nothing", pd, full.RKey(), iova, 1, 0, FaultAccess},
		{"asking for a local right", pd, full.RKey(), iova, 1, LocalWrite, FaultAccess},
		{"lkey of a local region", pd, ib.RKey(local.LKey()), iova, 1, RemoteRead, FaultAccess},
		{"same, asking for nothing", pd, ib.RKey(local.LKey()), iova, 1, 0, FaultAccess},
		{"other PD", otherPD, full.RKey(), iova, 1, RemoteRead, FaultPD},
		{"key 0", pd, 0, iova, 1, RemoteRead, FaultKey},
		{"all ones", pd, math.MaxUint32, iova, 1, RemoteRead, FaultKey},
		{"before", pd, full.RKey(), iova - 1, 1, RemoteRead, FaultBounds},
		{"past the end", pd, full.RKey(), iova, 4097, RemoteRead, FaultBounds},
		{"2^31", pd, full.RKey(), iova, 1 << 31, RemoteRead, FaultBounds},
		{"over 2^31", pd, full.RKey(), iova, 1<<31 + 1, RemoteRead, FaultBounds},
		{"VA 0", pd, full.RKey(), 0, 1, RemoteRead, FaultBounds},
		// C9-88: with length 0 nothing is checked.
		{"length 0", pd, full.RKey(), iova, 0, RemoteRead, FaultNone},
		{"length 0, anything", otherPD, 0xBAD, math.MaxUint64, 0, RemoteWrite, FaultNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, f := tb.Remote(tt.pd, testQP, tt.key, tt.va, tt.n, tt.need)
			wantFault(t, f, tt.want)
			if f != FaultNone || tt.n == 0 {
				if v.Bytes != nil || v.Region() != nil {
					t.Error("memory without permission")
				}
				return
			}
			if !v.Valid() || v.Region() != full || len(v.Bytes) != int(tt.n) || cap(v.Bytes) != len(v.Bytes) ||
				v.VA != tt.va || &v.Bytes[0] != &full.Bytes()[tt.va-iova] {
				t.Errorf("wrong view %+v", v)
			}
		})
	}
	// A view of nothing can be used like any other.
	v, _ := tb.Remote(pd, testQP, 0, 0, 0, RemoteWrite)
	if !v.Valid() {
		t.Error("a view of nothing is valid for ever")
	}
}

func TestRemoteWhole(t *testing.T) {
	tb, pd := newTable(t)
	r := mustRegion(t, pd, 4096, 0x1000, fullMR|FlushGlobal)
	w := mustMW(t, pd, Type2B)
	key := mustBind(t, w, BindInfo{Region: r, Addr: 0x1100, Length: 16, Access: FlushGlobal})
	v, f := tb.RemoteWhole(pd, testQP, r.RKey(), FlushGlobal)
	wantFault(t, f, FaultNone)
	if len(v.Bytes) != 4096 || v.VA != 0x1000 || !v.Valid() {
		t.Errorf("whole region: %d bytes at %#x", len(v.Bytes), v.VA)
	}
	v, f = tb.RemoteWhole(pd, testQP, key, FlushGlobal)
	wantFault(t, f, FaultNone)
	if len(v.Bytes) != 16 || v.VA != 0x1100 {
		t.Errorf("whole window: %d bytes at %#x", len(v.Bytes), v.VA)
	}
	_, f = tb.RemoteWhole(pd, otherQP, key, FlushGlobal)
	wantFault(t, f, FaultQP)
	_, f = tb.RemoteWhole(pd, testQP, key, RemoteRead)
	wantFault(t, f, FaultAccess)
	_, f = tb.RemoteWhole(pd, testQP, key+1, FlushGlobal)
	wantFault(t, f, FaultKey)
}
