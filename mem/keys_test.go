package mem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
)

// script is a random source that gives the keys it is told to.
func script(keys ...uint32) io.Reader {
	var b []byte
	for _, k := range keys {
		b = binary.LittleEndian.AppendUint32(b, k)
	}
	return bytes.NewReader(b)
}

// TestKeyTableModel drives the table against a map, with indices crowded into few
// homes at both ends of the table, so that chains collide, wrap and are repaired.
func TestKeyTableModel(t *testing.T) {
	seeds.Run(t, 20, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		quarantine := []int{0, 1, 7, 100}[seed%4]
		k := newKeyTable(nil, quarantine)
		model := map[uint32]*grant{} // index -> grant
		var quarantined []uint32
		var live []*grant
		inQuarantine := func(index uint32) bool {
			for _, q := range quarantined {
				if q == index {
					return true
				}
			}
			return false
		}
		for step := range 3000 {
			if len(live) == 0 || rng.IntN(100) < 52 {
				// Homes 60..67 of a table of 64: the end and, wrapped, the start.
				index := 60 + uint32(rng.IntN(8)) + 64*uint32(rng.IntN(200))
				key := index<<keyIndexShift | uint32(rng.IntN(256))
				g := &grant{}
				k.rng = script(key)
				err := k.add(g)
				if taken := model[index] != nil || inQuarantine(index); taken != (err != nil) {
					t.Fatalf("seed %d step %d: add of index %#x: taken %v, err %v", seed, step, index, taken, err)
				}
				if err == nil {
					model[index] = g
					live = append(live, g)
				}
			} else if i := rng.IntN(len(live)); rng.IntN(4) == 0 {
				k.setVariant(live[i], live[i].key&^0xFF|uint32(rng.IntN(256)))
			} else {
				g := live[i]
				index := g.key >> keyIndexShift
				k.remove(g)
				if g.key != 0 {
					t.Fatal("removed grant keeps its key")
				}
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				delete(model, index)
				quarantined = append(quarantined, index)
				if len(quarantined) > quarantine {
					quarantined = quarantined[1:]
				}
			}
			if want := len(live) + len(quarantined); k.used != want {
				t.Fatalf("seed %d step %d: %d slots in use, want %d", seed, step, k.used, want)
			}
			if 2*k.used > len(k.slots) {
				t.Fatalf("table over half full: %d of %d", k.used, len(k.slots))
			}
			if step%50 != 0 {
				continue
			}
			for index, g := range model {
				if k.lookup(g.key) != g || k.lookup(g.key^1) != nil {
					t.Fatalf("seed %d step %d: lookup of index %#x is wrong", seed, step, index)
				}
			}
			for _, index := range quarantined {
				for v := range uint32(256) {
					if k.lookup(index<<keyIndexShift|v) != nil {
						t.Fatal("a quarantined key matches")
					}
				}
			}
		}
	})
}

func TestKeyTableNeverMatchesSmallKeys(t *testing.T) {
	k := newKeyTable(script(0x05, 0xFF, 0x4000_00AA), 0)
	g := &grant{}
	if err := k.add(g); err != nil || g.key != 0x4000_00AA {
		t.Fatalf("key %#x, %v: indices of 0 must be drawn again", g.key, err)
	}
	for key := range uint32(256) {
		if k.lookup(key) != nil {
			t.Fatalf("key %#x matches", key)
		}
	}
}

// repeat is a broken random source.
type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestBadRandomSources(t *testing.T) {
	// Stuck: the first key works, the second is refused rather than given twice.
	tb := NewTable(repeat(7), Limits{})
	pd := mustPD(t, tb)
	r := mustRegion(t, pd, 8, 0, fullMR)
	_, err := tb.Register(pd, RegionAttr{})
	wantErr(t, err, errStuckRandom, "key")
	_, err = tb.AllocMW(pd, Type1)
	wantErr(t, err, errStuckRandom, "key")
	// A failed change leaves everything as it was.
	key := r.RKey()
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: 0}}), errStuckRandom, "key")
	if r.RKey() != key || remote(pd, key, 0, 8, allRemote) != FaultNone {
		t.Error("failed reregistration changed the region")
	}

	// Dry, absent, failing.
	for _, rng := range []io.Reader{script(), nil, errReader{}} {
		tb := NewTable(rng, Limits{})
		pd := mustPD(t, tb)
		if _, err := tb.Register(pd, RegionAttr{}); err == nil {
			t.Errorf("registered with random source %T", rng)
		}
		if got := tb.Counts(); got.Regions != 0 || pd.Refs() != 0 {
			t.Errorf("failed registration left %+v, %d refs", got, pd.Refs())
		}
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("no entropy") }

// A type 1 bind draws a key: when that fails, the old binding stays.
func TestBindRandomFailure(t *testing.T) {
	tb := NewTable(script(0x1000_0000, 0x2000_0000, 0x3000_0000), Limits{})
	pd := mustPD(t, tb)
	r := mustRegion(t, pd, 64, 0, fullMR)
	w := mustMW(t, pd, Type1)
	key := mustBind(t, w, BindInfo{Region: r, Length: 8, Access: RemoteRead})
	_, err := w.Bind(pd, BindInfo{Region: r, Length: 16, Access: RemoteRead})
	wantErr(t, err, io.EOF, "key")
	if w.RKey() != key || w.Len() != 8 || remote(pd, key, 0, 8, RemoteRead) != FaultNone {
		t.Error("failed bind changed the window")
	}
}

func TestQuarantineLimits(t *testing.T) {
	tb := NewTable(script(0x100_00, 0x200_00, 0x100_00, 0x300_00, 0x100_00, 0x100_00), Limits{Quarantine: 1})
	pd := mustPD(t, tb)
	first := mustRegion(t, pd, 1, 0, fullMR)
	second := mustRegion(t, pd, 1, 0, fullMR)
	wantErr(t, first.Deregister(), nil, "")
	// 0x100 is quarantined: the draw after it counts.
	if third := mustRegion(t, pd, 1, 0, fullMR); third.RKey() != 0x300_00 {
		t.Fatalf("key %#x drawn while in quarantine", third.RKey())
	}
	// Another free pushes it out.
	wantErr(t, second.Deregister(), nil, "")
	if again := mustRegion(t, pd, 1, 0, fullMR); again.RKey() != 0x100_00 {
		t.Fatalf("key %#x, want the one that left quarantine", again.RKey())
	}

	none := NewTable(script(0x100_00, 0x100_00), Limits{Quarantine: -1})
	pd = mustPD(t, none)
	r := mustRegion(t, pd, 1, 0, fullMR)
	wantErr(t, r.Deregister(), nil, "")
	if r := mustRegion(t, pd, 1, 0, fullMR); r.RKey() != 0x100_00 {
		t.Fatal("negative Quarantine should mean none")
	}
}

// A table that lives long does not grow with the keys it has forgotten.
func TestTableDoesNotAge(t *testing.T) {
	tb := NewTable(seeded(2), Limits{Quarantine: 100})
	pd := mustPD(t, tb)
	for range 20000 {
		if err := mustRegion(t, pd, 1, 0, fullMR).Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	if len(tb.keys.slots) > 512 || tb.keys.used != 100 {
		t.Errorf("%d slots, %d used, for 100 keys in quarantine", len(tb.keys.slots), tb.keys.used)
	}
}
