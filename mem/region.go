package mem

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
)

// RegionAttr describes memory to register.
type RegionAttr struct {
	// Bytes is the memory: an ordinary slice or mapped pages. It may be empty.
	// The table keeps the slice alive until the region is released.
	Bytes []byte
	// IOVA is the address of the first byte in work requests and on the wire, if IOVASet. The
	// default is its real address; with ZeroBased it is 0.
	IOVA    uint64
	IOVASet bool
	Access  Access
	// Key, if not 0, is the key of the region, which must be free; otherwise the key is random. It
	// is for memory whose key others know already.
	Key uint32
	// OnRelease, if set, is called once when the region has been deregistered (or its memory
	// replaced): from then on nothing here touches Bytes, so the memory may be unmapped. It runs
	// inside Deregister, Reregister, PD.Clear or Table.Close, without the lock of the table. It
	// must not deregister the region again, as that call would wait for it.
	OnRelease func()
	// Persist makes bytes durable (msync or a cache flush) and returns when they are. FLUSH to
	// persistence calls it; FlushPersistent cannot be granted without it (rxe likewise grants it on
	// persistent memory only).
	Persist func([]byte) error
}

// Region is registered memory (ibv_mr).
type Region struct {
	table *Table
	// cur is what the region grants now; the grant nothing once it was deregistered.
	cur atomic.Pointer[grant]
	// Under the lock of the table:
	windows int // windows bound to it
	leaving int // how often memory was taken from it that has not been given back yet
}

// Register registers memory under a new key. Errors: ErrInvalid naming the attribute, ErrLimit,
// ErrDestroyed, or that of the random source.
func (t *Table) Register(pd *PD, a RegionAttr) (*Region, error) {
	const op = "register"
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := pd.check(t, op); err != nil {
		return nil, err
	}
	if err := t.checkAttr(op, &a); err != nil {
		return nil, err
	}
	if t.counts.Regions >= t.lim.Regions {
		return nil, opErr(op, "", fmt.Sprintf("%d regions", t.lim.Regions), ErrLimit)
	}
	key, err := t.keys.take(a.Key)
	if err != nil {
		return nil, opErr(op, "key", "", err)
	}
	r := &Region{table: t}
	r.publish(key, pd, &a, newMemory(r, &a))
	pd.regions++
	t.counts.Regions++
	return r, nil
}

// checkAttr validates a, drops optional flags, and fills in the IOVA.
func (t *Table) checkAttr(op string, a *RegionAttr) error {
	access, detail := checkRegionAccess(a.Access)
	if detail != "" {
		return opErr(op, "Access", detail, ErrInvalid)
	}
	a.Access = access
	if access.Has(FlushPersistent) && a.Persist == nil {
		return opErr(op, "Access", "FLUSH_PERSISTENT needs Persist", ErrInvalid)
	}
	n := uint64(len(a.Bytes))
	if n > t.lim.RegionBytes {
		return opErr(op, "Bytes", fmt.Sprintf("%d bytes, at most %d", n, t.lim.RegionBytes), ErrLimit)
	}
	switch {
	case access.Has(ZeroBased):
		if a.IOVASet && a.IOVA != 0 {
			return opErr(op, "IOVA", "must be 0 with ZERO_BASED", ErrInvalid)
		}
		a.IOVA = 0
	case !a.IOVASet:
		a.IOVA = addressOf(a.Bytes)
	}
	// The last byte must have an address: IOVA + n - 1 <= 2^64 - 1.
	if n > 0 && a.IOVA > math.MaxUint64-(n-1) {
		return opErr(op, "IOVA", fmt.Sprintf("%#x + %d bytes wraps", a.IOVA, n), ErrInvalid)
	}
	return nil
}

// publish grants the region what the checked attributes say. The lock is held.
func (r *Region) publish(key uint32, pd *PD, a *RegionAttr, m *memory) {
	g := r.grant(key, pd, a, m)
	r.cur.Store(g)
	r.table.keys.put(key, g)
}

func (r *Region) grant(key uint32, pd *PD, a *RegionAttr, m *memory) *grant {
	g := newGrant(m.bytes)
	g.va, g.pd, g.key, g.access, g.mem = a.IOVA, pd, key, a.Access, m
	return g
}

// regrant gives the region's key a new grant, with the checked attributes and the same memory. The
// lock is held.
func (r *Region) regrant(pd *PD, a *RegionAttr) {
	old := r.cur.Load()
	g := r.grant(old.key, pd, a, old.mem)
	old.state.Store(revoked)
	r.cur.Store(g)
	r.table.keys.replace(old.key, old.key, g)
	old.pd.regions--
	pd.regions++
}

// LKey returns the key for the owner's work requests; 0 once deregistered.
func (r *Region) LKey() ib.LKey { return ib.LKey(r.cur.Load().key) }

// RKey returns the key to give to peers: 0 if the region has no remote rights.
func (r *Region) RKey() ib.RKey {
	g := r.cur.Load()
	if g.access&remoteAccess == 0 {
		return 0
	}
	return ib.RKey(g.key)
}

// IOVA returns the address of the first byte as work requests and peers see it; 0 once
// deregistered.
func (r *Region) IOVA() uint64 { return r.cur.Load().va }

// PD returns the protection domain; nil once deregistered.
func (r *Region) PD() *PD { return r.cur.Load().pd }

// Bytes returns the registered memory; nil once deregistered or lost.
func (r *Region) Bytes() []byte {
	if g := r.cur.Load(); g.ok() {
		return g.all()
	}
	return nil
}

// Registered reports whether the region has not been deregistered.
func (r *Region) Registered() bool { return r.cur.Load() != nothing }

// Deregister revokes the region's key, waits until no engine uses the memory, and gives it back;
// work requests in progress that refer to it fail. It fails with ErrBusy, and changes nothing,
// while memory windows are bound to it (ibv_dereg_mr). A second call fails with ErrDestroyed; it
// first waits for a first one that is still running.
//
// quiesce is the function that waits: it returns when each engine that shares the table has been at
// rest once since the call. It is called between the revocation and the release, without the lock
// of the table. So it may take and release the lock of each engine, and the caller must hold none
// of them. nil is for a caller that knows that no engine is running, because it holds the lock of
// the only one.
func (r *Region) Deregister(quiesce func()) error {
	const op = "deregister"
	t := r.table
	t.mu.Lock()
	if !r.Registered() {
		r.awaitReleased()
		t.mu.Unlock()
		return opErr(op, "", "", ErrDestroyed)
	}
	if n := r.windows; n != 0 {
		t.mu.Unlock()
		return opErr(op, "", fmt.Sprintf("%d memory windows bound", n), ErrBusy)
	}
	gone := r.destroy()
	t.mu.Unlock()
	t.release(quiesce, gone)
	return nil
}

// destroy revokes the key and returns the memory to be released. The lock is held.
func (r *Region) destroy() *memory {
	r.table.counts.Regions--
	g := r.revoke()
	r.cur.Store(nothing)
	r.table.leave(g.mem)
	return g.mem
}

// revoke revokes the region's grant and returns it. The lock is held.
func (r *Region) revoke() *grant {
	g := r.cur.Load()
	g.state.Store(revoked)
	r.table.keys.remove(g.key)
	g.pd.regions--
	return g
}
