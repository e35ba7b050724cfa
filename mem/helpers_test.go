package mem

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
)

const (
	testQP  ib.QPN = 0x11
	otherQP ib.QPN = 0x12

	allRemote = RemoteWrite | RemoteRead | RemoteAtomic
	fullMR    = LocalWrite | allRemote | MWBind
)

// seeded is a random source for keys that is the same in every run.
func seeded(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func newTable(t testing.TB) (*Table, *PD) {
	t.Helper()
	tb := NewTable(seeded(1), Limits{})
	return tb, mustPD(t, tb)
}

func mustPD(t testing.TB, tb *Table) *PD {
	t.Helper()
	pd, err := tb.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return pd
}

func mustRegister(t testing.TB, pd *PD, a RegionAttr) *Region {
	t.Helper()
	r, err := pd.table.Register(pd, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustRegion registers n bytes at iova.
func mustRegion(t testing.TB, pd *PD, n int, iova uint64, access Access) *Region {
	t.Helper()
	return mustRegister(t, pd, RegionAttr{Bytes: make([]byte, n), IOVA: iova, IOVASet: true, Access: access})
}

func mustMW(t testing.TB, pd *PD, kind WindowType) *Window {
	t.Helper()
	w, err := pd.table.AllocMW(pd, kind)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// mustBind binds a window of any type, a type 2 one on testQP.
func mustBind(t testing.TB, w *Window, info BindInfo) ib.RKey {
	t.Helper()
	if w.Type() == Type1 {
		key, err := w.Bind(w.PD(), info, nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key := NextRKey(w.RKey())
	wantFault(t, w.table.BindWR(w.PD(), testQP, w, key, info), FaultNone)
	return key
}

func wantFault(t testing.TB, got, want Fault) {
	t.Helper()
	if got != want {
		t.Fatalf("fault %v, want %v", got, want)
	}
}

// wantErr checks the kind of an error and the argument that it names. A nil kind wants no error.
func wantErr(t testing.TB, err, kind error, arg string) {
	t.Helper()
	if kind == nil {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	var op *TableError
	if !errors.Is(err, kind) || !errors.As(err, &op) {
		t.Fatalf("error %v, want a TableError of kind %v", err, kind)
	}
	if op.Arg != arg {
		t.Fatalf("error %v blames %q, want %q", err, op.Arg, arg)
	}
}

// remote is a shorthand for the fault of an access of a peer on testQP.
func remote(pd *PD, key ib.RKey, va uint64, n uint32, need Access) Fault {
	_, f := pd.table.Remote(pd, testQP, key, va, n, need)
	return f
}
