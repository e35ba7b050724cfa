package mem

import (
	"fmt"
	"math"

	"github.com/goroce/goroce/ib"
)

// RegionAttr describes memory to register.
type RegionAttr struct {
	// Bytes is the memory: an ordinary slice or mapped pages. It may be empty.
	// The table keeps the slice alive until the region is released.
	Bytes []byte
	// IOVA is the address of the first byte in work requests and on the wire,
	// if IOVASet. The default is its real address; with ZeroBased it is 0.
	IOVA    uint64
	IOVASet bool
	Access  Access
	// OnRelease, if set, is called once, when the region has been deregistered
	// (or its memory replaced): from then on nothing here touches Bytes,
	// which may be unmapped. It runs inside Deregister, Reregister or Table.Close,
	// under the owner's lock, and must not call into the table.
	OnRelease func()
	// Persist makes bytes durable (msync or a cache flush) and returns when they are. It is what
	// FLUSH to persistence calls; FlushPersistent cannot be granted without it
	// (rxe likewise grants it on persistent memory only).
	Persist func([]byte) error
}

// Region is registered memory (ibv_mr).
type Region struct {
	grant
	table     *Table
	mem       []byte // what a release hands back; the grant has its own copy, gone at revocation
	windows   int    // windows bound to it
	onRelease func()
	persist   func([]byte) error
}

// Register makes memory known under a new key. Errors: ErrInvalid naming the
// attribute, ErrLimit, ErrDestroyed, or the random source's.
func (t *Table) Register(pd *PD, a RegionAttr) (*Region, error) {
	const op = "register"
	if err := pd.check(t, op); err != nil {
		return nil, err
	}
	a, err := t.checkAttr(op, a)
	if err != nil {
		return nil, err
	}
	if t.counts.Regions >= t.lim.Regions {
		return nil, opErr(op, "", fmt.Sprintf("%d regions", t.lim.Regions), ErrLimit)
	}
	r := &Region{table: t}
	if err := t.keys.add(&r.grant); err != nil {
		return nil, opErr(op, "key", "", err)
	}
	r.install(pd, a)
	pd.regions++
	t.counts.Regions++
	return r, nil
}

// checkAttr validates a and fills in its IOVA.
func (t *Table) checkAttr(op string, a RegionAttr) (RegionAttr, error) {
	access, detail := checkRegionAccess(a.Access)
	if detail != "" {
		return a, opErr(op, "Access", detail, ErrInvalid)
	}
	a.Access = access
	if access.Has(FlushPersistent) && a.Persist == nil {
		return a, opErr(op, "Access", "FLUSH_PERSISTENT needs Persist", ErrInvalid)
	}
	n := uint64(len(a.Bytes))
	if n > t.lim.RegionBytes {
		return a, opErr(op, "Bytes", fmt.Sprintf("%d bytes, at most %d", n, t.lim.RegionBytes), ErrLimit)
	}
	switch {
	case access.Has(ZeroBased):
		if a.IOVASet && a.IOVA != 0 {
			return a, opErr(op, "IOVA", "must be 0 with ZERO_BASED", ErrInvalid)
		}
		a.IOVA = 0
	case !a.IOVASet:
		a.IOVA = addressOf(a.Bytes)
	}
	// The last byte must have an address: IOVA + n - 1 <= 2^64 - 1.
	if n > 0 && a.IOVA > math.MaxUint64-(n-1) {
		return a, opErr(op, "IOVA", fmt.Sprintf("%#x + %d bytes wraps", a.IOVA, n), ErrInvalid)
	}
	return a, nil
}

// install fills r from checked attributes.
func (r *Region) install(pd *PD, a RegionAttr) {
	r.mem = a.Bytes
	r.onRelease = a.OnRelease
	r.persist = a.Persist
	r.regrant(pd, a.IOVA, a.Access)
}

func (r *Region) regrant(pd *PD, iova uint64, access Access) {
	r.bytes = r.mem[:len(r.mem):len(r.mem)]
	r.va = iova
	r.pd = pd
	r.access = access
	r.region = r
	r.bound, r.lost = true, false
}

// LKey returns the key for the owner's work requests; 0 once deregistered.
func (r *Region) LKey() ib.LKey { return ib.LKey(r.key) }

// RKey returns the key to give to peers: 0 if they were granted nothing.
func (r *Region) RKey() ib.RKey {
	if r.access&remoteAccess == 0 {
		return 0
	}
	return ib.RKey(r.key)
}

// IOVA returns the address of the first byte as work requests and peers see it.
func (r *Region) IOVA() uint64 { return r.va }

// Len returns the length in bytes.
func (r *Region) Len() uint64 { return uint64(len(r.bytes)) }

// Access returns the rights granted.
func (r *Region) Access() Access { return r.access }

// PD returns the protection domain.
func (r *Region) PD() *PD { return r.pd }

// Bytes returns the registered memory; nil once deregistered or lost.
func (r *Region) Bytes() []byte { return r.bytes }

// Windows returns how many memory windows are bound to the region.
func (r *Region) Windows() int { return r.windows }

// Registered reports whether the region has not been deregistered.
func (r *Region) Registered() bool { return r.bound || r.lost }

// Deregister revokes the region's key and releases its memory; work requests in
// progress that refer to it fail. It fails with ErrBusy, and changes
// nothing, while memory windows are bound to it (ibv_dereg_mr). The second time it
// fails with ErrDestroyed.
func (r *Region) Deregister() error {
	const op = "deregister"
	if !r.Registered() {
		return opErr(op, "", "", ErrDestroyed)
	}
	if r.windows != 0 {
		return opErr(op, "", fmt.Sprintf("%d memory windows bound", r.windows), ErrBusy)
	}
	r.destroy()
	return nil
}

// destroy revokes and releases.
func (r *Region) destroy() {
	r.table.keys.remove(&r.grant)
	r.table.counts.Regions--
	r.pd.regions--
	r.revoke()
	r.lost = false
	r.release()
}

// release lets go of the memory.
func (r *Region) release() {
	f := r.onRelease
	r.mem, r.onRelease, r.persist = nil, nil, nil
	if f != nil {
		f()
	}
}
