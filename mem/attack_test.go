package mem

import (
	"crypto/rand"
	mrand "math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
)

// The attacks of ReDMArk (USENIX Security 2021) that concern memory, each showing what happens.

// Keys that the attacker owns say nothing about those it does not own: no
// common prefix, no stride, every bit of the index drawn afresh.
func TestAttackPredictKeys(t *testing.T) {
	tb := NewTable(rand.Reader, Limits{})
	pd := mustPD(t, tb)
	const n = 4096
	var ones [32]int
	strides := map[uint32]int{}
	last := uint32(0)
	for range n {
		key := uint32(mustRegion(t, pd, 1, 0, fullMR).RKey())
		for bit := range ones {
			ones[bit] += int(key >> bit & 1)
		}
		strides[key-last]++
		last = key
	}
	// 2048 expected, standard deviation 32: 10 of those is a chance of 1e-23.
	for bit, got := range ones {
		if got < n/2-320 || got > n/2+320 {
			t.Errorf("bit %d is set in %d of %d keys", bit, got, n)
		}
	}
	for stride, times := range strides {
		if times > 3 {
			t.Errorf("stride %#x occurs %d times", stride, times)
		}
	}
}

// Guessing: with the keys of a busy device in place, a million guesses next to
// known keys and anywhere meet nothing.
func TestAttackGuessKeys(t *testing.T) {
	_, pd := newTable(t)
	keys := map[ib.RKey]bool{}
	var known []ib.RKey
	for range 1000 {
		k := mustRegion(t, pd, 8, 0, fullMR).RKey()
		keys[k] = true
		known = append(known, k)
	}
	rng := mrand.New(mrand.NewPCG(1, 2))
	guess := func(k ib.RKey) {
		if f := remote(pd, k, 0, 8, RemoteRead); (f == FaultNone) != keys[k] || f != FaultNone && f != FaultKey {
			t.Fatalf("guess %#x: %v", uint32(k), f)
		}
	}
	for _, k := range known {
		for d := ib.RKey(1); d < 512; d++ {
			guess(k + d)
			guess(k - d)
		}
	}
	for range 100000 {
		guess(ib.RKey(rng.Uint32()))
	}
}

// Use after deregistration: a key that was valid never works again, though the device
// registers and frees as many regions as the quarantine is deep.
func TestAttackStaleKeys(t *testing.T) {
	tb, pd := newTable(t)
	stale := map[uint32]bool{}
	for range 5000 {
		r := mustRegion(t, pd, 8, 0, fullMR)
		if stale[uint32(r.LKey())>>keyIndexShift] {
			t.Fatalf("index of stale key %#x drawn again", uint32(r.LKey()))
		}
		stale[uint32(r.LKey())>>keyIndexShift] = true
		key := r.RKey()
		wantErr(t, r.Deregister(nil), nil, "")
		wantFault(t, remote(pd, key, 0, 8, RemoteRead), FaultKey)
	}
	for range 1000 {
		mustRegion(t, pd, 8, 0, fullMR)
	}
	for index := range stale {
		for variant := range uint32(256) {
			if _, f := tb.Remote(pd, testQP, ib.RKey(index<<keyIndexShift|variant), 0, 8, RemoteRead); f != FaultKey {
				t.Fatalf("stale key works: %v", f)
			}
		}
	}
}

// Another PD's key: known exactly, useless, for regions and all windows, and for
// every operation that takes a key.
func TestAttackOtherPD(t *testing.T) {
	tb, victim := newTable(t)
	attacker := mustPD(t, tb)
	r := mustRegion(t, victim, 64, 0, fullMR)
	keys := []ib.RKey{r.RKey()}
	for _, kind := range allTypes {
		keys = append(keys, mustBind(t, mustMW(t, victim, kind), BindInfo{Region: r, Length: 64, Access: allRemote}))
	}
	for _, key := range keys {
		wantFault(t, remote(attacker, key, 0, 8, RemoteRead), FaultPD)
		_, f := tb.RemoteWhole(attacker, testQP, key, RemoteRead)
		wantFault(t, f, FaultPD)
		wantFault(t, tb.Invalidate(attacker, testQP, key, true), FaultPD)
		wantFault(t, remote(victim, key, 0, 8, RemoteRead), FaultNone)
	}
	_, f := tb.Local(attacker, r.LKey(), 0, 8, 0)
	wantFault(t, f, FaultPD)
	w := mustMW(t, attacker, Type2B)
	wantFault(t,
		tb.BindWR(attacker, testQP, w, NextRKey(w.RKey()), BindInfo{Region: r, Length: 8, Access: RemoteRead}), FaultPD)
}

// Wrap-around of address + length: every length that makes the sum land inside again.
func TestAttackWrapAround(t *testing.T) {
	_, pd := newTable(t)
	for _, iova := range []uint64{0, 1, 0x1000, 1 << 31, 1 << 32, 1 << 63, ^uint64(0) - 4095} {
		r := mustRegion(t, pd, 4096, iova, fullMR)
		for _, back := range []uint64{1, 2, 4096, 1 << 20, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63} {
			for _, n := range []uint32{1, 2, 4096, 4097, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
				if va := iova - back; remote(pd, r.RKey(), va, n, RemoteRead) != FaultBounds {
					t.Fatalf("region %#x+4096 lets %#x+%#x through", iova, va, n)
				}
			}
		}
		wantErr(t, r.Deregister(nil), nil, "")
	}
}

// A message that is under way when its key is revoked stops at the next packet.
func TestAttackUseAfterRevocation(t *testing.T) {
	tb, pd := newTable(t)
	for name, revoke := range map[string]func(r *Region, w *Window) error{
		"deregister": func(r *Region, _ *Window) error { return r.Deregister(nil) },
		"reregister": func(r *Region, _ *Window) error {
			return r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: fullMR}}, nil)
		},
		"dealloc": func(_ *Region, w *Window) error { return w.Dealloc(nil) },
		"detach":  func(*Region, *Window) error { return tb.DetachQP(testQP) },
		"invalidate": func(_ *Region, w *Window) error {
			if f := tb.Invalidate(pd, testQP, w.RKey(), true); f != FaultNone {
				return f
			}
			return nil
		},
		"rebind": func(r *Region, w *Window) error {
			if f := tb.Invalidate(pd, testQP, w.RKey(), true); f != FaultNone {
				return f
			}
			// The same range, the same QP, even the same key.
			if f := tb.BindWR(pd, testQP, w, w.RKey(),
				BindInfo{Region: r, Length: 64, Access: RemoteWrite}); f != FaultNone {
				return f
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustRegion(t, pd, 64, 0, fullMR)
			key := r.RKey()
			var w *Window
			if name != "deregister" && name != "reregister" {
				w = mustMW(t, pd, Type2B)
				key = mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteWrite})
			}
			v, f := tb.Remote(pd, testQP, key, 0, 64, RemoteWrite)
			wantFault(t, f, FaultNone)
			if !v.Valid() {
				t.Fatal("not valid before")
			}
			if err := revoke(r, w); err != nil {
				t.Fatal(err)
			}
			if v.Valid() {
				t.Error("still valid")
			}
			if _, f := v.FetchAdd(1); f != FaultState {
				t.Errorf("atomic on a revoked view: %v", f)
			}
			if v.Store(make([]byte, 8)) != FaultState {
				t.Error("store to a revoked view")
			}
		})
	}
}
