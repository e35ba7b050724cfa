package mem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
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

// crowd is a key table with indices crowded into few homes at both ends of it, so that chains
// collide, wrap and break unless they are cared for; and a map that says what must be in it.
type crowd struct {
	t           testing.TB
	rng         *rand.Rand
	keyTable    keyTable
	grants      map[uint32]*grant // by index
	keys        []uint32          // of grants
	quarantined []uint32
	steps       int
}

func newCrowd(t testing.TB, seed uint64) *crowd {
	c := &crowd{t: t, rng: rand.New(rand.NewPCG(seed, 1)), grants: map[uint32]*grant{}}
	c.keyTable.init(nil, []int{0, 1, 7, 100}[seed%4])
	return c
}

// anyKey returns a key of the crowd, in use or not.
func (c *crowd) anyKey() uint32 {
	// Homes 60..67 of a table of 64: the end and, wrapped, the start.
	index := 60 + uint32(c.rng.IntN(8)) + 64*uint32(c.rng.IntN(200))
	return index<<keyIndexShift | uint32(c.rng.IntN(256))
}

// step adds a key, removes one, or changes the variant of one.
func (c *crowd) step() {
	k := &c.keyTable
	if len(c.keys) == 0 || c.rng.IntN(100) < 52 {
		key := c.anyKey()
		index := key >> keyIndexShift
		k.rng = script(key)
		got, err := k.draw()
		if taken := c.grants[index] != nil || slices.Contains(c.quarantined, index); taken != (err != nil) {
			c.t.Fatalf("index %#x: taken %v, err %v", index, taken, err)
		}
		if err == nil {
			g := &grant{key: got}
			k.put(got, g)
			c.grants[index] = g
			c.keys = append(c.keys, got)
		}
	} else if i := c.rng.IntN(len(c.keys)); c.rng.IntN(4) == 0 {
		was := c.keys[i]
		now := was&^0xFF | uint32(c.rng.IntN(256))
		c.grants[was>>keyIndexShift].state.Store(revoked)
		g := &grant{key: now}
		k.replace(was, now, g)
		c.grants[was>>keyIndexShift] = g
		c.keys[i] = now
	} else {
		key := c.keys[i]
		c.grants[key>>keyIndexShift].state.Store(revoked)
		k.remove(key)
		c.keys[i] = c.keys[len(c.keys)-1]
		c.keys = c.keys[:len(c.keys)-1]
		delete(c.grants, key>>keyIndexShift)
		c.quarantined = append(c.quarantined, key>>keyIndexShift)
		if len(c.quarantined) > k.maxQuarantine {
			c.quarantined = c.quarantined[1:]
		}
	}
	if want := len(c.keys) + len(c.quarantined); k.occupied != want {
		c.t.Fatalf("%d slots occupied, want %d", k.occupied, want)
	}
	if c.steps++; c.steps%32 != 0 {
		return
	}
	full := 0
	slots := k.pub.Load().slots
	for i := range slots {
		if slots[i].key.Load() != 0 {
			full++
		}
	}
	if full != k.full || 2*full > len(slots) {
		c.t.Fatalf("%d slots of %d are full, want at most half, and %d", full, len(slots), k.full)
	}
}

// TestKeyTableModel drives the table against a map.
func TestKeyTableModel(t *testing.T) {
	seeds.Run(t, seeds.Fewer(20), func(t *testing.T, seed uint64) {
		c := newCrowd(t, seed)
		for step := range 3000 {
			c.step()
			if step%50 != 0 {
				continue
			}
			for index, g := range c.grants {
				if c.keyTable.lookup(g.key) != g || c.keyTable.lookup(g.key^1) != nil {
					t.Fatalf("seed %d step %d: lookup of index %#x is wrong", seed, step, index)
				}
			}
			for _, index := range c.quarantined {
				for v := range uint32(256) {
					if c.keyTable.lookup(index<<keyIndexShift|v) != nil {
						t.Fatal("a quarantined key matches")
					}
				}
			}
		}
	})
}

func TestKeyTableNeverMatchesSmallKeys(t *testing.T) {
	var k keyTable
	k.init(script(0x05, 0xFF, 0x4000_00AA), 0)
	key, err := k.draw()
	if err != nil || key != 0x4000_00AA {
		t.Fatalf("key %#x, %v: indices of 0 must be drawn again", key, err)
	}
	k.put(key, &grant{key: key})
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
	wantErr(t, r.Reregister(RegionChange{What: ChangeAccess, RegionAttr: RegionAttr{Access: 0}}, nil),
		errStuckRandom, "key")
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
	_, err := w.Bind(pd, BindInfo{Region: r, Length: 16, Access: RemoteRead}, nil)
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
	wantErr(t, first.Deregister(nil), nil, "")
	// 0x100 is quarantined: the draw after it counts.
	if third := mustRegion(t, pd, 1, 0, fullMR); third.RKey() != 0x300_00 {
		t.Fatalf("key %#x drawn while in quarantine", third.RKey())
	}
	// Another free pushes it out.
	wantErr(t, second.Deregister(nil), nil, "")
	if again := mustRegion(t, pd, 1, 0, fullMR); again.RKey() != 0x100_00 {
		t.Fatalf("key %#x, want the one that left quarantine", again.RKey())
	}

	none := NewTable(script(0x100_00, 0x100_00), Limits{Quarantine: -1})
	pd = mustPD(t, none)
	r := mustRegion(t, pd, 1, 0, fullMR)
	wantErr(t, r.Deregister(nil), nil, "")
	if r := mustRegion(t, pd, 1, 0, fullMR); r.RKey() != 0x100_00 {
		t.Fatal("negative Quarantine should mean none")
	}
}

// A table that lives long does not grow with the keys it has forgotten.
func TestTableDoesNotAge(t *testing.T) {
	tb := NewTable(seeded(2), Limits{Quarantine: 100})
	pd := mustPD(t, tb)
	for range 20000 {
		if err := mustRegion(t, pd, 1, 0, fullMR).Deregister(nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tb.keys.pub.Load().slots); n > 512 || tb.keys.occupied != 100 {
		t.Errorf("%d slots, %d used, for 100 keys in quarantine", n, tb.keys.occupied)
	}
}
