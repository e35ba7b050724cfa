package mem

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// The tests of this file are about what engines see that look keys up while somebody
// changes the table.

// probe is lookup, one load at a time, so that a test can let a writer run in between.
type probe struct {
	key   uint32
	slots []slot
	i     uint32
	hit   bool // the next load is that of the grant
	done  bool
	g     *grant
}

func newProbe(k *keyTable, key uint32) *probe {
	return &probe{key: key, slots: k.pub.Load().slots, i: key >> keyIndexShift}
}

func (p *probe) step() {
	s := &p.slots[p.i&uint32(len(p.slots)-1)]
	if p.hit {
		p.done = true
		if g := s.g.Load(); g != nil && (g.key == p.key || g.key == anyKey) {
			p.g = g
		}
		return
	}
	switch s.key.Load() {
	case p.key:
		p.hit = true
	case 0:
		p.done = true
	default:
		p.i++
	}
}

// found returns the grant as a check of the data path takes it: one that is revoked is none.
func (p *probe) found() *grant {
	if p.g != nil && p.g.ok() {
		return p.g
	}
	return nil
}

// Lookups that are stopped anywhere, while a writer adds, removes and changes keys of the same
// chains, and makes the table anew, find every key that stays and none that had gone before they
// began.
func TestLookupBesideWriter(t *testing.T) {
	interleaved := 0
	seeds.Run(t, seeds.Fewer(60), func(t *testing.T, seed uint64) {
		c := newCrowd(t, seed)
		type run struct {
			*probe
			began *grant // what the key named when the lookup began
			stays bool   // it has named that ever since
			rekey bool   // it has named something else since
		}
		var runs []*run
		for range 6000 {
			for len(runs) < 8 {
				key := c.anyKey()
				if len(c.keys) > 0 && c.rng.IntN(4) > 0 {
					key = c.keys[c.rng.IntN(len(c.keys))]
				}
				r := &run{probe: newProbe(&c.keyTable, key), began: c.named(key)}
				r.stays = r.began != nil
				runs = append(runs, r)
			}
			if c.rng.IntN(3) == 0 {
				c.step()
				for _, r := range runs {
					now := c.named(r.key)
					r.stays = r.stays && now == r.began
					r.rekey = r.rekey || now != nil && now != r.began
				}
				interleaved++
				continue
			}
			i := c.rng.IntN(len(runs))
			r := runs[i]
			r.step()
			if !r.done {
				continue
			}
			runs = slices.Delete(runs, i, i+1)
			switch got := r.found(); {
			case r.stays && got != r.began:
				t.Fatalf("seed %d: a lookup of key %#x, which stayed, found %v", seed, r.key, got)
			case r.began == nil && !r.rekey && got != nil:
				t.Fatalf("seed %d: a lookup of key %#x, which was not there, found %v", seed, r.key, got)
			case got != nil && got.key != r.key:
				t.Fatalf("seed %d: a lookup of key %#x found the grant of %#x", seed, r.key, got.key)
			}
			// At rest, the lookup in one go says the same.
			if want := c.named(r.key); c.keyTable.lookup(r.key) != want {
				t.Fatalf("seed %d: lookup of %#x is not %v", seed, r.key, want)
			}
		}
	})
	if interleaved == 0 {
		t.Error("no writer ran")
	}
}

// named returns what a key stands for, by the map.
func (c *crowd) named(key uint32) *grant {
	if g := c.grants[key>>keyIndexShift]; g != nil && g.key == key {
		return g
	}
	return nil
}

// life is what the readers of TestEngines may know about one object. They read the epoch before and
// after an access, and what it says at both times held during the access.
type life struct {
	epoch atomic.Uint64 // modulo 4: dead, good or changing
	key   atomic.Uint32 // the last one
	fill  byte          // what the bytes of the object are
}

const (
	dead = iota
	good
	changing
)

func (l *life) now() uint64 { return l.epoch.Load() % 4 }

// become moves the epoch on.
func (l *life) become(phase uint64) { l.epoch.Add((phase+4-l.now())%4 + 4) }

// engines is what the engines of a device share.
type engines struct {
	tb *Table
	pd *PD
	mu [2]sync.Mutex // each is held while its engine uses memory, as the lock of a shard
}

func (e *engines) quiesce() {
	for i := range e.mu {
		e.mu[i].Lock()
		e.mu[i].Unlock() //lint:ignore SA2001 the engine was at rest
	}
}

// Two engines, each in a goroutine, look keys up and use what they find, and bind windows of their
// own, while two owners register, deregister, reregister, bind and deallocate. An engine never
// misses a key that stays, never finds one that was revoked before, and never touches memory that
// was given back: its owner fills that with something else, which the engine, and the race
// detector, would see.
func TestEngines(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	e := &engines{tb: NewTable(seeded(3), Limits{Quarantine: 16})}
	e.pd = mustPD(t, e.tb)
	shared := mustRegion(t, e.pd, 64, 0, fullMR)
	const objects = 24
	var lives [objects]life
	var stop, wrong atomic.Bool
	var owners atomic.Int32
	owners.Store(2)
	fail := func(format string, args ...any) {
		if !wrong.Swap(true) {
			t.Errorf(format, args...)
		}
	}
	var hits, refusals, crossed atomic.Int64
	var bound [2]atomic.Uint32 // the key of the window that each engine has bound

	// look is one access by a key that its owner has given away.
	look := func(qpn ib.QPN, o *life, l *SGL) {
		before := o.epoch.Load()
		key := o.key.Load()
		v, f := e.tb.Remote(e.pd, qpn, ib.RKey(key), 8, 16, RemoteRead)
		valid := f == FaultNone && v.Valid()
		after := o.epoch.Load()
		fl := e.tb.Resolve(e.pd, []SGE{{8, 16, ib.LKey(key)}}, 0, l)
		switch {
		case before == after && before%4 == good && !valid:
			fail("missed key %#x, which stayed: %v", key, f)
		case before == after && before%4 == dead && f == FaultNone:
			fail("found key %#x, which was revoked before", key)
		}
		if f == FaultNone {
			hits.Add(1)
			for _, b := range v.Bytes {
				if b != o.fill {
					fail("read %#x: the memory was given back", b)
				}
			}
		} else {
			refusals.Add(1)
		}
		if fl == FaultNone {
			if c := l.Cursor(); c.Next(16)[0] != o.fill {
				fail("gathered from memory that was given back")
			}
		}
	}
	engine := func(n int) {
		rng := rand.New(rand.NewPCG(uint64(n), 5))
		qpn := testQP + ib.QPN(n)
		w, err := e.tb.AllocMW(e.pd, Type2B)
		if err != nil {
			fail("%v", err)
			return
		}
		var l SGL
		for !stop.Load() && !wrong.Load() {
			e.mu[n].Lock()
			key := NextRKey(w.RKey())
			if f := e.tb.BindWR(e.pd, qpn, w, key,
				BindInfo{Region: shared, Length: 8, Access: RemoteRead}); f != FaultNone {
				fail("bind: %v", f)
			}
			bound[n].Store(uint32(key))
			for range 16 { // a batch of packets
				look(qpn, &lives[rng.IntN(objects)], &l)
				if _, f := e.tb.Remote(e.pd, qpn, key, 0, 8, RemoteRead); f != FaultNone {
					fail("window of the engine: %v", f)
				}
				if other := ib.RKey(bound[1-n].Load()); other != 0 {
					if _, f := e.tb.Remote(e.pd, qpn, other, 0, 8, RemoteRead); f == FaultNone {
						fail("used the window of the other engine")
					}
					crossed.Add(1)
				}
			}
			if f := e.tb.Invalidate(e.pd, qpn, key, true); f != FaultNone {
				fail("invalidate: %v", f)
			}
			if _, f := e.tb.Remote(e.pd, qpn, key, 0, 8, RemoteRead); f != FaultState {
				fail("invalidated: %v", f)
			}
			e.mu[n].Unlock()
			runtime.Gosched()
		}
		if err := w.Dealloc(nil); err != nil {
			fail("%v", err)
		}
	}

	// owner has a part of the objects, and changes them. One with an even number is a region, the
	// others are windows of type 1 on a region of their own.
	owner := func(n int) {
		defer func() {
			if owners.Add(-1) == 0 {
				stop.Store(true)
			}
		}()
		rng := rand.New(rand.NewPCG(uint64(n), 6))
		mine := lives[n*objects/2 : (n+1)*objects/2]
		regions := make([]*Region, len(mine))
		windows := make([]*Window, len(mine))
		for i := range mine {
			mine[i].fill = byte(1 + n*objects/2 + i)
		}
		attr := func(i int) RegionAttr {
			b := bytes.Repeat([]byte{mine[i].fill}, 64)
			return RegionAttr{Bytes: b, IOVASet: true, Access: fullMR, OnRelease: func() {
				for j := range b {
					b[j] = 0xFF // the next owner of the memory
				}
			}}
		}
		tried := func() bool { return hits.Load() > 100 && refusals.Load() > 100 && crossed.Load() > 100 }
		for round := 0; (round < rounds || !tried()) && !wrong.Load(); round++ {
			i := rng.IntN(len(mine))
			o := &mine[i]
			var err error
			var key ib.RKey
			switch r, w := regions[i], windows[i]; {
			case r == nil:
				if r, err = e.tb.Register(e.pd, attr(i)); err != nil {
					break
				}
				regions[i], key = r, r.RKey()
				if i%2 == 0 {
					break
				}
				if w, err = e.tb.AllocMW(e.pd, Type1); err == nil {
					windows[i] = w
					key, err = w.Bind(e.pd, BindInfo{Region: r, Length: 64, Access: RemoteRead}, e.quiesce)
				}
			case rng.IntN(2) == 0 && w == nil:
				o.become(changing)
				if rng.IntN(4) == 0 {
					// An engine has found that the memory is not there. The key is refused from
					// then on.
					if n := e.tb.Lose(addressOf(r.Bytes())); n != 1 || !r.Lost() {
						fail("%d regions lost", n)
					}
					o.become(dead)
					o.become(changing)
				}
				err = r.Deregister(e.quiesce)
				regions[i] = nil
			case w == nil:
				o.become(changing)
				err = r.Reregister(RegionChange{What: ChangeTranslation, RegionAttr: attr(i)}, e.quiesce)
				key = r.RKey()
			case rng.IntN(2) == 0:
				o.become(changing)
				key, err = w.Bind(e.pd, BindInfo{Region: r, Length: 32, Access: RemoteRead}, e.quiesce)
			default:
				o.become(changing)
				if err = w.Dealloc(e.quiesce); err == nil {
					err = r.Deregister(e.quiesce)
				}
				regions[i], windows[i] = nil, nil
			}
			switch {
			case err != nil:
				fail("%v", err)
			case key != 0:
				o.become(changing) // a reader may see the key from now on
				o.key.Store(uint32(key))
				o.become(good)
			default:
				o.become(dead)
			}
		}
	}
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() { engine(n) })
		wg.Go(func() { owner(n) })
	}
	wg.Wait()
	e.tb.Close()
	if got := e.tb.Counts(); got != (Counts{}) || len(e.tb.leaving) != 0 {
		t.Errorf("left over: %+v, %d", got, len(e.tb.leaving))
	}
}

// What revokes asks to wait after the key has gone and before the memory is given back, without a
// lock.
func TestQuiesce(t *testing.T) {
	tb, pd := newTable(t)
	other := mustPD(t, tb)
	attr := func(released *int) RegionAttr {
		return RegionAttr{Bytes: make([]byte, 64), IOVASet: true, Access: fullMR, OnRelease: func() { *released++ }}
	}
	for name, tt := range map[string]struct {
		revoke   func(r *Region, w *Window, quiesce func()) error
		window   bool
		releases int
	}{
		"deregister": {func(r *Region, _ *Window, q func()) error { return r.Deregister(q) }, false, 1},
		"replace the memory": {func(r *Region, _ *Window, q func()) error {
			return r.Reregister(
				RegionChange{What: ChangeTranslation, RegionAttr: RegionAttr{Bytes: make([]byte, 8)}}, q)
		}, false, 1},
		"change the rights": {func(r *Region, _ *Window, q func()) error {
			return r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: LocalWrite}}, q)
		}, false, 0},
		"change the domain": {func(r *Region, _ *Window, q func()) error {
			return r.Reregister(RegionChange{What: ChangePD, PD: other}, q)
		}, false, 0},
		"bind anew": {func(r *Region, w *Window, q func()) error {
			_, err := w.Bind(pd, BindInfo{Region: r, Length: 8, Access: RemoteRead}, q)
			return err
		}, true, 0},
		"unbind": {func(_ *Region, w *Window, q func()) error { _, err := w.Bind(pd, BindInfo{}, q); return err },
			true, 0},
		"dealloc": {func(_ *Region, w *Window, q func()) error { return w.Dealloc(q) }, true, 0},
		"clear":   {func(_ *Region, _ *Window, q func()) error { pd.Clear(q); return nil }, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			released, quiesced := 0, 0
			r := mustRegister(t, pd, attr(&released))
			key := r.RKey()
			var w *Window
			if tt.window {
				w = mustMW(t, pd, Type1)
				key = mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteWrite})
			}
			v, f := tb.Remote(pd, testQP, key, 0, 64, RemoteWrite)
			wantFault(t, f, FaultNone)
			at := addressOf(r.Bytes())
			wantErr(t, tt.revoke(r, w, func() {
				quiesced++
				wantFault(t, remote(pd, key, 0, 8, RemoteWrite), FaultKey)
				if v.Valid() || released != 0 {
					t.Errorf("while waiting: valid %v, %d released", v.Valid(), released)
				}
				tb.Counts() // takes the lock of the table
				// An engine that is in the middle of an access finds that the memory is not there.
				if n := tb.Lose(at); n != 1 {
					t.Errorf("%d regions hold memory that is not given back yet", n)
				}
			}), nil, "")
			if quiesced != 1 || released != tt.releases {
				t.Errorf("quiesced %d times, released %d, want %d", quiesced, released, tt.releases)
			}
			if n := tb.Lose(at); n != 1-tt.releases {
				t.Errorf("afterwards %d regions hold the memory", n)
			}
			pd.Clear(nil)
			other.Clear(nil)
		})
	}
	// Nothing was bound: nobody to wait for.
	w := mustMW(t, pd, Type1)
	_, err := w.Bind(pd, BindInfo{}, func() { t.Error("waited") })
	wantErr(t, err, nil, "")
	wantErr(t, w.Dealloc(func() { t.Error("waited") }), nil, "")
	wantErr(t, w.Dealloc(func() { t.Error("waited") }), ErrDestroyed, "")
}

// The second one that deregisters learns that the region is gone when the memory has been given
// back, and not before: then he may unmap it.
func TestDeregisterTwiceAtOnce(t *testing.T) {
	tb, pd := newTable(t)
	for _, first := range []string{"deregister", "clear", "close"} {
		for range 50 {
			var released atomic.Bool
			r := mustRegister(t, pd, RegionAttr{Bytes: make([]byte, 8), OnRelease: func() { released.Store(true) }})
			began := make(chan struct{})
			second := make(chan error)
			quiesce := func() {
				go func() {
					close(began)
					err := r.Deregister(nil)
					if !released.Load() {
						t.Error("the second has returned before the memory was given back")
					}
					second <- err
				}()
				<-began
				runtime.Gosched()
			}
			switch first {
			case "deregister":
				wantErr(t, r.Deregister(quiesce), nil, "")
			case "clear":
				pd.Clear(quiesce)
			case "close":
				other := NewTable(seeded(1), Limits{})
				r = mustRegister(t, mustPD(t, other), RegionAttr{Bytes: make([]byte, 8), OnRelease: func() {
					quiesce()
					released.Store(true)
				}})
				other.Close()
			}
			wantErr(t, <-second, ErrDestroyed, "")
		}
	}
	pd.Clear(nil)
	if got := tb.Counts(); got != (Counts{PDs: 1}) {
		t.Errorf("left over: %+v", got)
	}
}

// A domain can be taken away or used, not both: engines retain it while its owner ends it.
func TestPDRetainBesideDealloc(t *testing.T) {
	tb := NewTable(seeded(1), Limits{})
	for range 200 {
		pd := mustPD(t, tb)
		var wg sync.WaitGroup
		var retained atomic.Int64
		for range 2 {
			wg.Go(func() {
				if pd.Retain() == nil {
					retained.Add(1)
				}
			})
		}
		err := pd.Dealloc()
		wg.Wait()
		if n := int(retained.Load()); pd.Refs() != n || err == nil && n != 0 {
			t.Fatalf("dealloc: %v, %d retained, %d references", err, n, pd.Refs())
		}
		for pd.Refs() > 0 {
			pd.Release()
		}
		if err != nil {
			wantErr(t, pd.Dealloc(), nil, "")
		}
	}
}

// A lookup that has read the key of a slot may find the grant of another key there, which has taken
// the slot since. Then there is no such key, for each way to ask.
func TestSlotTakenDuringLookup(t *testing.T) {
	tb, pd := newTable(t)
	first := mustRegion(t, pd, 64, 0, fullMR)
	second := mustRegion(t, pd, 64, 0, fullMR)
	key := first.RKey()
	tb.keys.slot(uint32(key)).g.Store(second.cur.Load()) // as such a lookup sees it
	if tb.keys.lookup(uint32(key)) != nil {
		t.Error("lookup")
	}
	wantFault(t, remote(pd, key, 0, 8, RemoteRead), FaultKey)
	_, f := tb.RemoteWhole(pd, testQP, key, RemoteRead)
	wantFault(t, f, FaultKey)
	_, f = tb.Local(pd, first.LKey(), 0, 8, 0)
	wantFault(t, f, FaultKey)
	wantFault(t, tb.Resolve(pd, []SGE{{0, 8, first.LKey()}}, 0, new(SGL)), FaultKey)

	// The grant of a window that is not bound stands for any key, and refuses everything.
	w := mustMW(t, pd, Type2B)
	tb.keys.slot(uint32(key)).g.Store(&w.idle)
	wantFault(t, remote(pd, key, 0, 8, RemoteRead), FaultState)
	_, f = tb.Local(pd, first.LKey(), 0, 8, 0)
	wantFault(t, f, FaultKey)
}

// A window that is not bound any more keeps no memory from the garbage collector.
func TestUnboundWindowHoldsNothing(t *testing.T) {
	tb, pd := newTable(t)
	for _, kind := range allTypes {
		r := mustRegion(t, pd, 64, 0, fullMR)
		w := mustMW(t, pd, kind)
		mustBind(t, w, BindInfo{Region: r, Length: 64, Access: RemoteRead})
		if kind == Type1 {
			_, err := w.Bind(pd, BindInfo{}, nil)
			wantErr(t, err, nil, "")
		} else {
			wantFault(t, tb.Invalidate(pd, testQP, w.RKey(), false), FaultNone)
		}
		wantErr(t, r.Deregister(nil), nil, "")
		if g := tb.keys.lookup(uint32(w.RKey())); g == nil || g.mem != nil || g.base != nil || w.cur != g {
			t.Errorf("%v: the key stands for %+v", kind, g)
		}
		if g := r.cur.Load(); g.mem != nil || g.base != nil {
			t.Errorf("the region still stands for %+v", g)
		}
	}
	for g := range tb.keys.all {
		if g.mem != nil {
			t.Error("a grant of memory is left")
		}
	}
}
