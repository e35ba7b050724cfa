//go:build unix

package mem

import (
	"errors"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
)

// mapped returns n bytes of address space.
func mapped(t *testing.T, n, prot int) []byte {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, n, prot, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// faultAt returns what FaultAddr says of the panic in f.
func faultAt(t *testing.T, f func()) (addr uint64, ok bool) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { addr, ok = FaultAddr(recover()) }()
	f()
	t.Error("no panic")
	return 0, false
}

// Every kind of access to memory that is not there is recognised, with its address.
// Other panics are not.
func TestFaultAddr(t *testing.T) {
	tb, pd := newTable(t)
	page := syscall.Getpagesize()
	buf := mapped(t, 2*page, syscall.PROT_NONE)
	defer syscall.Munmap(buf)
	r := mustRegister(t, pd, RegionAttr{Bytes: buf, Access: fullMR})
	v, f := tb.Remote(pd, testQP, r.RKey(), r.IOVA()+uint64(page), uint32(page), RemoteWrite)
	wantFault(t, f, FaultNone)
	var l SGL
	wantFault(t, tb.Resolve(pd, []SGE{{r.IOVA() + uint64(page), 64, r.LKey()}}, LocalWrite, &l), FaultNone)
	want := addressOf(v.Bytes)
	small := make([]byte, 64)
	for name, access := range map[string]func(){
		"copy in":      func() { c := l.Cursor(); c.CopyIn(small) },
		"copy out":     func() { c := l.Cursor(); c.CopyOut(small) },
		"compare swap": func() { v.CompareSwap(1, 2) },
		"fetch add":    func() { v.FetchAdd(1) },
		"load":         func() { v.Load() },
		"store":        func() { v.Store(small[:8]) },
	} {
		got, ok := faultAt(t, access)
		if !ok || got < want || got >= want+64 {
			t.Errorf("%s: %#x, %v; want about %#x", name, got, ok, want)
		}
	}
	var none *grant
	if _, ok := faultAt(t, func() { _ = none.va }); ok {
		t.Error("a nil pointer taken for memory")
	}
	if _, ok := faultAt(t, func() { panic("else") }); ok {
		t.Error("another panic taken for memory")
	}
}

// A region whose memory is lost refuses everything, with its windows; others stay.
func TestLose(t *testing.T) {
	tb, pd := newTable(t)
	buf := make([]byte, 2<<12)[:1<<12] // so that the byte behind belongs to nobody else
	released := 0
	r := mustRegister(t, pd, RegionAttr{Bytes: buf, Access: fullMR | MWBind, OnRelease: func() { released++ }})
	twice := mustRegister(t, pd, RegionAttr{Bytes: buf[1<<11:], Access: fullMR})
	other := mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 1<<12), Access: fullMR})
	w, err := tb.AllocMW(pd, Type1)
	wantErr(t, err, nil, "")
	_, err = w.Bind(pd, BindInfo{Region: r, Addr: r.IOVA(), Length: 64, Access: RemoteRead}, nil)
	wantErr(t, err, nil, "")

	v, f := tb.Remote(pd, testQP, r.RKey(), r.IOVA(), 64, RemoteRead)
	wantFault(t, f, FaultNone)
	wv, f := tb.Remote(pd, testQP, w.RKey(), r.IOVA(), 64, RemoteRead)
	wantFault(t, f, FaultNone)
	var l, keeps SGL
	wantFault(t, tb.Resolve(pd, []SGE{{r.IOVA(), 64, r.LKey()}}, LocalWrite, &l), FaultNone)
	wantFault(t, tb.Resolve(pd, []SGE{{other.IOVA(), 64, other.LKey()}}, LocalWrite, &keeps), FaultNone)

	if n := tb.Lose(addressOf(buf) + 1<<12); n != 0 {
		t.Errorf("%d regions hold the byte behind", n)
	}
	if n := tb.Lose(addressOf(buf) + 100); n != 1 || !r.Lost() || twice.Lost() {
		t.Errorf("%d regions, lost %v and %v", n, r.Lost(), twice.Lost())
	}
	if n := tb.Lose(addressOf(buf) + 1<<12 - 1); n != 2 || !twice.Lost() || other.Lost() {
		t.Errorf("%d regions, lost %v, other %v", n, twice.Lost(), other.Lost())
	}
	if v.Valid() || wv.Valid() || l.Valid() || !keeps.Valid() || w.Bound() || r.Windows() != 0 || r.Bytes() != nil {
		t.Error("the lost memory can be used")
	}
	_, f = tb.Remote(pd, testQP, r.RKey(), r.IOVA(), 64, RemoteRead)
	wantFault(t, f, FaultMemory)
	_, f = tb.Remote(pd, testQP, w.RKey(), r.IOVA(), 64, RemoteRead)
	wantFault(t, f, FaultState)
	_, f = tb.Local(pd, r.LKey(), r.IOVA(), 64, 0)
	wantFault(t, f, FaultMemory)
	_, err = w.Bind(pd, BindInfo{Region: r, Addr: r.IOVA(), Length: 64, Access: RemoteRead}, nil)
	wantErr(t, err, FaultMemory, "Region")
	if _, err := r.Uint64(0); !errors.Is(err, FaultMemory) {
		t.Error(err)
	}

	// It can be given other memory, or be deregistered.
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: LocalWrite}}, nil),
		FaultMemory, "What")
	old := r.RKey()
	wantErr(t, r.Reregister(RegionChange{
		What: ChangeTranslation, RegionAttr: RegionAttr{Bytes: make([]byte, 64)},
	}, nil), nil, "")
	if r.Lost() || r.RKey() == old || released != 1 {
		t.Error("still lost")
	}
	_, f = tb.Remote(pd, testQP, r.RKey(), r.IOVA(), 64, RemoteRead)
	wantFault(t, f, FaultNone)
	wantErr(t, twice.Deregister(nil), nil, "")
	wantErr(t, twice.Deregister(nil), ErrDestroyed, "")
	wantErr(t, r.Deregister(nil), nil, "")
	if n := tb.Counts().Regions; n != 1 {
		t.Errorf("%d regions", n)
	}
}

// A table closes with a lost region in it.
func TestCloseWithLostRegion(t *testing.T) {
	tb, pd := newTable(t)
	buf := make([]byte, 64)
	released := false
	r := mustRegister(t, pd, RegionAttr{Bytes: buf, Access: fullMR, OnRelease: func() { released = true }})
	tb.Lose(addressOf(buf))
	tb.Close()
	if !released || r.Registered() || r.Lost() || r.RKey() != ib.RKey(0) {
		t.Error("not released")
	}
}
