package mem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// The model says, by rules written down a second time and as plainly as
// possible, which access is allowed; random sequences of calls compare the
// table with it. Bytes of a fuzzer or of a seeded generator choose the calls.

const arenaBytes = 256

type mRegion struct {
	r      *Region
	pd     int
	lo, n  int // in the arena
	iova   uint64
	access Access
	key    uint32
	alive  bool
}

type mWindow struct {
	w      *Window
	pd     int
	key    uint32
	alive  bool
	bound  bool
	region *mRegion
	lo, n  int // in the arena
	va     uint64
	access Access
	qpn    ib.QPN
}

type mView struct {
	v     View
	owner any // *mRegion or *mWindow
	live  bool
}

type model struct {
	t        testing.TB
	in       []byte
	tb       *Table
	pds      []*PD
	arena    []byte
	regions  []*mRegion
	windows  []*mWindow
	views    []*mView
	keys     []uint32 // every key ever seen
	released map[*mRegion]int
	// seen counts outcomes by what was tried, to show that the inputs get around.
	seen map[string]int
}

func (m *model) byte() byte {
	if len(m.in) == 0 {
		return 0
	}
	b := m.in[0]
	m.in = m.in[1:]
	return b
}

func (m *model) n(limit int) int { return int(m.byte()) % limit }

// mostly is true seven times in eight: calls that make sense are tried more often.
func (m *model) mostly() bool { return m.n(8) != 0 }

// address picks one near an edge of something.
func (m *model) address(base uint64, n int) uint64 {
	d := uint64(m.n(8)) - 4
	switch m.n(16) {
	case 0:
		return base + d
	case 1:
		return base + uint64(n) + d
	case 2:
		return d
	case 3:
		return base + uint64(m.byte())<<56 + d
	}
	return base + uint64(m.n(n/2+1))
}

// bytes picks a part of the arena to register.
func (m *model) bytes() (lo, n int) {
	lo = m.n(arenaBytes)
	n = arenaBytes - lo
	if !m.mostly() {
		n = m.n(n + 1)
	}
	return lo, n
}

func (m *model) length() uint32 {
	switch m.n(16) {
	case 0:
		return 0
	case 1:
		return []uint32{1 << 31, 1<<31 + 1, 1<<32 - 1, 1<<32 - 2, 257, 65536}[m.n(6)]
	}
	return uint32(m.n(24))
}

var (
	modelQPs    = []ib.QPN{5, 6}
	modelIOVAs  = []uint64{0, 0x1000, 1<<32 - 8, 1 << 63, ^uint64(0) - arenaBytes - 3}
	modelRights = []Access{RemoteRead, RemoteWrite, RemoteAtomic, RemoteRead | RemoteWrite, FlushGlobal, 0, LocalWrite}
	modelAccess = []Access{fullMR, fullMR, LocalWrite | MWBind, RemoteRead | MWBind,
		LocalWrite | RemoteWrite, 0, fullMR | ZeroBased, fullMR | FlushGlobal}
	modelWAccess = []Access{allRemote, RemoteRead, RemoteWrite, RemoteAtomic, 0, allRemote | ZeroBased,
		RemoteRead | ZeroBased, LocalWrite, FlushGlobal}
)

// inside is the naive range check: every byte has its own address, none is 2^64 or more.
func inside(va uint64, n uint32, base uint64, size int) bool {
	if n > arenaBytes {
		return false // more than any region has
	}
	for i := range uint64(n) {
		a := va + i
		if a < va || a < base || a-base >= uint64(size) {
			return false
		}
	}
	return true
}

// owner finds who has a key.
func (m *model) owner(key uint32) (*mRegion, *mWindow) {
	for _, r := range m.regions {
		if r.alive && r.key == key {
			return r, nil
		}
	}
	for _, w := range m.windows {
		if w.alive && w.key == key {
			return nil, w
		}
	}
	return nil, nil
}

func (m *model) revoke(owner any) {
	for _, v := range m.views {
		if v.owner == owner {
			v.live = false
		}
	}
}

func (m *model) boundTo(r *mRegion) (n int) {
	for _, w := range m.windows {
		if w.alive && w.bound && w.region == r {
			n++
		}
	}
	return n
}

// anyKey picks the key of something alive, or one that was, or none's.
func (m *model) anyKey() uint32 {
	switch kind := m.n(8); {
	case kind < 4 && len(m.windows) > 0:
		return m.window().key
	case kind < 6 && len(m.regions) > 0:
		return m.region().key
	case kind < 7 && len(m.keys) > 0:
		k := m.keys[m.n(len(m.keys))]
		if m.n(8) == 0 {
			k ^= 1 << m.n(32)
		}
		return k
	}
	return uint32(m.byte())<<24 | uint32(m.byte())<<8 | uint32(m.byte())
}

// asOwner picks the PD and QP that a key was made for, mostly.
func (m *model) asOwner(r *mRegion, w *mWindow) (pd int, qpn ib.QPN) {
	pd, qpn = m.n(2), modelQPs[m.n(2)]
	if m.mostly() {
		switch {
		case r != nil:
			pd = r.pd
		case w != nil:
			pd = w.pd
		}
	}
	if w != nil && w.bound && m.mostly() {
		qpn = w.qpn
	}
	return pd, qpn
}

func (m *model) register() {
	lo, n := m.bytes()
	mr := &mRegion{pd: m.n(2), lo: lo, n: n, iova: modelIOVAs[m.n(len(modelIOVAs))],
		access: modelAccess[m.n(len(modelAccess))]}
	a := RegionAttr{Bytes: m.arena[lo : lo+mr.n], IOVA: mr.iova, IOVASet: true, Access: mr.access,
		OnRelease: func() { m.released[mr]++ }}
	if mr.access.Has(ZeroBased) {
		a.IOVA, mr.iova = 0, 0
	}
	r, err := m.tb.Register(m.pds[mr.pd], a)
	if err != nil {
		m.t.Fatalf("register: %v", err)
	}
	mr.r, mr.key, mr.alive = r, uint32(r.LKey()), true
	m.regions = append(m.regions, mr)
	m.keys = append(m.keys, mr.key)
}

func (m *model) region() *mRegion {
	if len(m.regions) == 0 {
		m.register()
	}
	for range 8 {
		if r := m.regions[m.n(len(m.regions))]; r.alive {
			return r
		}
	}
	return m.regions[m.n(len(m.regions))]
}

func (m *model) wantKind(what string, err, want error) bool {
	m.seen[fmt.Sprint(what, " ", want)]++
	if !errors.Is(err, want) {
		m.t.Fatalf("%s: %v, model says %v", what, err, want)
	}
	return err == nil
}

func (m *model) deregister() {
	r := m.region()
	var want error
	switch {
	case !r.alive:
		want = ErrDestroyed
	case m.boundTo(r) > 0:
		want = ErrBusy
	}
	if m.wantKind("deregister", r.r.Deregister(nil), want) {
		r.alive = false
		m.revoke(r)
	}
}

func (m *model) reregister() {
	r := m.region()
	what, pd, access := Change(m.n(8)), m.n(2), modelAccess[m.n(len(modelAccess))]
	lo, n := m.bytes()
	moves := what&ChangeTranslation != 0
	var want error
	switch {
	case !r.alive:
		want = ErrDestroyed
	case what == 0:
		want = ErrInvalid
	case m.boundTo(r) > 0:
		want = ErrBusy
	}
	newAccess := r.access
	if what&ChangeAccess != 0 {
		newAccess = access
	}
	iova := modelIOVAs[m.n(len(modelIOVAs))]
	if newAccess.Has(ZeroBased) {
		iova = 0
	}
	before := m.released[r]
	if !m.wantKind("reregister", r.r.Reregister(RegionChange{What: what, PD: m.pds[pd], RegionAttr: RegionAttr{
		Bytes: m.arena[lo : lo+n], IOVA: iova, IOVASet: true, Access: access,
		OnRelease: func() { m.released[r]++ }}}, nil), want) {
		return
	}
	if moves != (m.released[r] == before+1) {
		m.t.Fatal("reregister must release the memory iff it replaces it")
	}
	m.released[r] = 0
	switch {
	case moves:
		r.lo, r.n, r.iova = lo, n, iova
	case newAccess.Has(ZeroBased):
		r.iova = 0
	case r.access.Has(ZeroBased):
		r.iova = addressOf(m.arena[r.lo:]) // back to the real address
	}
	if what&ChangePD != 0 {
		r.pd = pd
	}
	r.access = newAccess
	r.key = uint32(r.r.LKey())
	m.keys = append(m.keys, r.key)
	m.revoke(r)
}

func (m *model) allocMW() {
	pd := m.n(2)
	w, err := m.tb.AllocMW(m.pds[pd], allTypes[m.n(3)])
	if err != nil {
		m.t.Fatal(err)
	}
	m.windows = append(m.windows, &mWindow{w: w, pd: pd, key: uint32(w.RKey()), alive: true})
	m.keys = append(m.keys, uint32(w.RKey()))
}

func (m *model) window() *mWindow {
	if len(m.windows) == 0 {
		m.allocMW()
	}
	for range 8 {
		if w := m.windows[m.n(len(m.windows))]; w.alive {
			return w
		}
	}
	return m.windows[m.n(len(m.windows))]
}

func (m *model) dealloc() {
	w := m.window()
	var want error
	if !w.alive {
		want = ErrDestroyed
	}
	if m.wantKind("dealloc", w.w.Dealloc(nil), want) {
		w.alive, w.bound = false, false
		m.revoke(w)
	}
}

func (m *model) bind() {
	w, r := m.window(), m.region()
	for tries := 0; tries < 8 && (r.pd != w.pd || !r.access.Has(MWBind)); tries++ {
		r = m.region()
	}
	pd, qpn := m.asOwner(nil, w)
	info := BindInfo{Region: r.r, Access: modelWAccess[m.n(len(modelWAccess))]}
	info.Addr = m.address(r.iova, r.n)
	info.Length = uint64(m.length())
	key := w.key&^0xFF | uint32(m.byte())
	if m.n(16) == 0 {
		key ^= 1 << 20
	}
	type1 := w.w.Type() == Type1
	legal := w.alive && w.pd == pd
	if type1 {
		legal = legal && (info.Length == 0 || info.Access&ZeroBased == 0)
	} else {
		legal = legal && !w.bound && key>>8 == w.key>>8 && info.Length != 0
	}
	if info.Length != 0 {
		legal = legal && r.alive && r.pd == w.pd && r.access&MWBind != 0 && r.access&ZeroBased == 0 &&
			info.Access&LocalWrite == 0 && inside(info.Addr, uint32(info.Length), r.iova, r.n)
		if info.Access&(RemoteWrite|RemoteAtomic) != 0 {
			legal = legal && r.access&LocalWrite != 0
		}
		if info.Access&FlushGlobal != 0 {
			legal = legal && r.access&FlushGlobal != 0
		}
	}
	m.seen[fmt.Sprintf("bind %v %v", w.w.Type(), legal)]++
	var ok bool
	if type1 {
		var got ib.RKey
		var err error
		got, err = w.w.Bind(m.pds[pd], info, nil)
		ok, key = err == nil, uint32(got)
	} else {
		ok = m.tb.BindWR(m.pds[pd], qpn, w.w, ib.RKey(key), info) == FaultNone
	}
	if ok != legal {
		m.t.Fatalf("bind of %v window %+v: done %v, model says %v", w.w.Type(), info, ok, legal)
	}
	if !ok {
		return
	}
	m.revoke(w)
	w.key = key
	m.keys = append(m.keys, key)
	w.bound = info.Length != 0
	if !w.bound {
		return
	}
	w.region, w.access, w.n = r, info.Access, int(info.Length)
	w.lo, w.va = r.lo+int(info.Addr-r.iova), info.Addr
	if info.Access&ZeroBased != 0 {
		w.va = 0
	}
	w.qpn = qpn
}

func (m *model) invalidate() {
	key := m.anyKey()
	r, w := m.owner(key)
	pd, qpn := m.asOwner(r, w)
	legal := w != nil && w.bound && w.pd == pd && w.w.Type() != Type1 && w.qpn == qpn
	f := m.tb.Invalidate(m.pds[pd], qpn, ib.RKey(key), m.n(2) == 0)
	m.seen[fmt.Sprint("invalidate ", f)]++
	if (f == FaultNone) != legal {
		m.t.Fatalf("invalidate %#x: %v, model says %v", key, f, legal)
	}
	if legal {
		w.bound = false
		m.revoke(w)
	}
}

func (m *model) detach() {
	qpn := modelQPs[m.n(2)]
	var want error
	var on []*mWindow
	for _, w := range m.windows {
		if w.alive && w.bound && w.w.Type() != Type1 && w.qpn == qpn {
			on = append(on, w)
			if w.w.Type() == Type2A {
				want = ErrBusy
			}
		}
	}
	if m.wantKind("detach", m.tb.DetachQP(qpn), want) {
		for _, w := range on {
			w.bound = false
			m.revoke(w)
		}
	}
}

// checkBytes sees that b is exactly the n bytes of the arena from lo.
func (m *model) checkBytes(b []byte, lo int, n uint32) {
	if len(b) != int(n) || cap(b) != int(n) || &b[0] != &m.arena[lo] {
		m.t.Fatalf("%d bytes (capacity %d) at arena %d, want %d at %d", len(b), cap(b),
			addressOf(b)-addressOf(m.arena), n, lo)
	}
}

func (m *model) remote() {
	key, n, need := m.anyKey(), m.length(), modelRights[m.n(len(modelRights))]
	r, w := m.owner(key)
	pd, qpn := m.asOwner(r, w)
	var va, base uint64
	var lo, size, owner = 0, 0, any(nil)
	allowed := need&(allRemote|FlushGlobal) != 0
	switch {
	case r != nil:
		base, lo, size, owner = r.iova, r.lo, r.n, r
		allowed = allowed && r.pd == pd && r.access&need == need
	case w != nil:
		base, lo, size, owner = w.va, w.lo, w.n, w
		allowed = allowed && w.bound && w.pd == pd && w.access&need == need &&
			(w.w.Type() == Type1 || w.qpn == qpn)
	default:
		allowed = false
	}
	va = m.address(base, size)
	allowed = allowed && inside(va, n, base, size)
	if n == 0 {
		allowed, owner = true, nil
	}
	v, f := m.tb.Remote(m.pds[pd], qpn, ib.RKey(key), va, n, need)
	switch {
	case n == 0:
		m.seen["remote nothing"]++
	case w != nil:
		m.seen[fmt.Sprintf("remote window %v", f)]++
	default:
		m.seen[fmt.Sprintf("remote region %v", f)]++
	}
	if (f == FaultNone) != allowed {
		m.t.Fatalf("remote %#x %#x+%d %v: %v, model says %v", key, va, n, need, f, allowed)
	}
	if !allowed {
		if v.Bytes != nil {
			m.t.Fatal("a fault, but bytes")
		}
		return
	}
	if n > 0 {
		m.checkBytes(v.Bytes, lo+int(va-base), n)
	}
	m.views = append(m.views, &mView{v, owner, true})
	if len(m.views) > 16 {
		m.views = m.views[1:]
	}
}

func (m *model) local() {
	key, n, need := m.anyKey(), m.length(), Access(m.n(2))
	r, w := m.owner(key)
	pd, _ := m.asOwner(r, w)
	var base uint64
	size := 0
	if r != nil {
		base, size = r.iova, r.n
	}
	addr := m.address(base, size)
	allowed := n == 0 || r != nil && r.pd == pd && r.access&need == need && inside(addr, n, base, size)
	b, f := m.tb.Local(m.pds[pd], ib.LKey(key), addr, n, need)
	m.seen[fmt.Sprint("local ", f)]++
	if (f == FaultNone) != allowed {
		m.t.Fatalf("local %#x %#x+%d: %v, model says %v", key, addr, n, f, allowed)
	}
	if allowed && n > 0 {
		m.checkBytes(b, r.lo+int(addr-base), n)
	} else if b != nil {
		m.t.Fatal("memory without permission")
	}
}

// check compares everything that can be seen.
func (m *model) check() {
	want := Counts{PDs: len(m.pds)}
	refs := make([]int, len(m.pds))
	for _, r := range m.regions {
		released := 0
		if r.alive {
			want.Regions++
			refs[r.pd]++
		} else {
			released = 1
		}
		if m.released[r] != released {
			m.t.Fatalf("region released %d times, want %d", m.released[r], released)
		}
		if r.r.Windows() != m.boundTo(r) || r.r.Registered() != r.alive {
			m.t.Fatal("region disagrees about its windows or its state")
		}
	}
	for _, w := range m.windows {
		if w.alive {
			want.Windows++
			refs[w.pd]++
		}
		if w.bound {
			want.Bound++
		}
		if w.w.Bound() != w.bound {
			m.t.Fatal("window disagrees about being bound")
		}
	}
	if got := m.tb.Counts(); got != want {
		m.t.Fatalf("counts %+v, want %+v", got, want)
	}
	for i, pd := range m.pds {
		if pd.Refs() != refs[i] {
			m.t.Fatalf("PD has %d refs, want %d", pd.Refs(), refs[i])
		}
	}
	for _, v := range m.views {
		if v.v.Valid() != v.live {
			m.t.Fatalf("view valid %v, want %v", v.v.Valid(), v.live)
		}
	}
}

func runModel(t testing.TB, in []byte, seen map[string]int) {
	tb := NewTable(seeded(9), Limits{Quarantine: 4})
	m := &model{t: t, in: in, tb: tb, arena: make([]byte, arenaBytes), released: map[*mRegion]int{}, seen: seen,
		pds: []*PD{mustPD(t, tb), mustPD(t, tb)}}
	for len(m.in) > 0 {
		switch m.n(20) {
		case 0, 1:
			m.register()
		case 2:
			m.deregister()
		case 3:
			m.reregister()
		case 4:
			m.allocMW()
		case 5:
			if m.n(2) == 0 {
				m.dealloc()
			}
		case 6, 7, 8:
			m.bind()
		case 9:
			m.invalidate()
		case 10:
			if m.n(4) == 0 {
				m.deregister()
			}
		case 11:
			if m.n(8) == 0 {
				m.detach()
			}
		case 12, 13, 14:
			m.local()
		default:
			m.remote()
		}
		m.check()
	}
	tb.Close()
	for _, r := range m.regions {
		if m.released[r] != 1 {
			t.Fatalf("released %d times in the end", m.released[r])
		}
	}
	if tb.Counts() != (Counts{}) {
		t.Fatalf("left over: %+v", tb.Counts())
	}
}

func modelInput(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 77))
	in := make([]byte, 3000)
	for i := range in {
		in[i] = byte(rng.Uint32())
	}
	return in
}

func TestModel(t *testing.T) {
	seen := map[string]int{}
	n := seeds.Run(t, seeds.Fewer(1000), func(t *testing.T, seed uint64) { runModel(t, modelInput(seed), seen) })
	if n < 1000 {
		return
	}
	// A model that never gets anywhere agrees with everything.
	for _, outcome := range []string{
		"deregister <nil>", "deregister in use", "deregister already destroyed",
		"reregister <nil>", "reregister in use", "dealloc <nil>", "detach <nil>", "detach in use",
		"bind type 1 true", "bind type 1 false", "bind type 2A true", "bind type 2A false", "bind type 2B true",
		"invalidate none", "invalidate unknown key", "invalidate not bound or revoked",
		"invalidate wrong protection domain", "invalidate wrong QP", "invalidate wrong type of object",
		"remote nothing", "remote region none", "remote region unknown key", "remote region wrong protection domain",
		"remote region access right missing", "remote region out of bounds",
		"remote window none", "remote window not bound or revoked", "remote window wrong protection domain",
		"remote window wrong QP", "remote window access right missing", "remote window out of bounds",
		"local none", "local unknown key", "local wrong protection domain", "local access right missing",
		"local out of bounds",
	} {
		if seen[outcome] < 50 {
			t.Errorf("%q was seen %d times", outcome, seen[outcome])
		}
	}
}

func FuzzModel(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(modelInput(seed)[:300]) // short, or the fuzzer spends its time on minimizing
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 4096 {
			return // the model is quadratic
		}
		runModel(t, in, map[string]int{})
	})
}
