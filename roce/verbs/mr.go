package verbs

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// MR is a registered memory region (ibv_mr).
type MR struct {
	d *Device
	t *mem.Region
	// mu serializes calls that end or change the region: a second Close returns only once the
	// memory has been given back.
	mu sync.Mutex
	// info holds what the getters return, so that they need no lock.
	info atomic.Pointer[mrInfo]
}

type mrInfo struct {
	bytes []byte
	addr  uint64
	lkey  ib.LKey
	rkey  ib.RKey
}

// MROptions has the options of [PD.RegisterMR].
type MROptions struct {
	// IOVA, if SetIOVA, is the address of the first byte for work requests and for peers, in place
	// of its address in memory (ibv_reg_mr_iova).
	IOVA    uint64
	SetIOVA bool

	// Persist makes bytes of the region durable. A FLUSH to persistence calls it, with the lock of
	// a shard held; calls may be concurrent. The access flag FlushPersistent needs it.
	Persist func([]byte) error

	// Key, if not 0, is the key of the region, for memory whose key others know already: the child
	// of a fork registers its parent's regions again. Registering fails with ErrBusy if another
	// region has the key. Known keys are no protection: leave it 0.
	Key ib.LKey

	// OnRelease is called once when the device has released the memory: at the end of Close, of
	// Reregister with other memory, or of Device.Close. It must not call into the device, whose
	// lock may be held.
	OnRelease func()
}

// region returns the attributes of a region.
func (o *MROptions) region(buf []byte, access Access) mem.RegionAttr {
	return mem.RegionAttr{Bytes: buf, Access: access, IOVA: o.IOVA, IOVASet: o.SetIOVA, Key: uint32(o.Key),
		Persist: o.Persist, OnRelease: o.OnRelease}
}

// RegisterMR registers buf, which may be any byte slice or mapped memory (ibv_reg_mr). The region
// keeps buf alive. nil means no options.
func (pd *PD) RegisterMR(buf []byte, access Access, o *MROptions) (*MR, error) {
	if o == nil {
		o = &MROptions{}
	}
	a := o.region(buf, access)
	d := pd.Device()
	if d.isClosed() {
		return nil, d.closedErr()
	}
	d.place(&a)
	t, err := d.table.Register(pd.t, a)
	if err != nil {
		return nil, d.orClosed(own(err))
	}
	mr := &MR{d: d, t: t}
	mr.refresh()
	return mr, nil
}

// refresh updates info from the region. mu is held, or no one else has the region.
func (mr *MR) refresh() {
	mr.info.Store(&mrInfo{mr.t.Bytes(), mr.t.IOVA(), mr.t.LKey(), mr.t.RKey()})
}

// get returns the current info; it is empty if the region was never registered.
func (mr *MR) get() *mrInfo {
	if i := mr.info.Load(); i != nil {
		return i
	}
	return new(mrInfo)
}

// engine returns the region's mem.Region; nil of nil.
func (mr *MR) engine() *mem.Region {
	if mr == nil {
		return nil
	}
	return mr.t
}

// LKey returns the key for work requests; 0 once closed.
func (mr *MR) LKey() ib.LKey { return mr.get().lkey }

// RKey returns the key to give to peers; 0 if they have no rights.
func (mr *MR) RKey() ib.RKey { return mr.get().rkey }

// Addr returns the address of the first byte, as work requests and peers use it.
func (mr *MR) Addr() uint64 { return mr.get().addr }

// Len returns the length in bytes.
func (mr *MR) Len() int { return len(mr.get().bytes) }

// Bytes returns the memory; nil once closed.
func (mr *MR) Bytes() []byte { return mr.get().bytes }

// SGE returns the scatter/gather element of n bytes from offset off. Whether they lie in the region
// is checked when the work request runs. An impossible length, negative or beyond 32 bits, is
// refused when the request is posted.
func (mr *MR) SGE(off, n int) SGE {
	i := mr.get()
	if n < 0 || uint64(n) > math.MaxUint32 {
		// Longer than any message, rather than cut to something that fits.
		return SGE{Addr: i.addr + uint64(off), Length: math.MaxUint32, LKey: i.lkey}
	}
	return SGE{Addr: i.addr + uint64(off), Length: uint32(n), LKey: i.lkey}
}

// Reregister changes the memory, the access or the domain of the region and, unless told to keep
// them, its keys (ibv_rereg_mr). On an error nothing has changed.
func (mr *MR) Reregister(c Rereg) error {
	rc := mem.RegionChange{RegionAttr: c.Options.region(nil, 0), KeepKey: c.KeepKeys}
	if c.Bytes != nil {
		rc.What |= mem.ChangeTranslation
		rc.Bytes = c.Bytes
	}
	if c.SetAccess {
		rc.What |= mem.ChangeAccess
		rc.Access = c.Access
	}
	if c.PD != nil {
		if c.PD.d != mr.d {
			return argError("reregister", "PD", "of another device")
		}
		rc.What |= mem.ChangePD
		rc.PD = c.PD.t
	}
	if err := mr.d.settle(); err != nil {
		return err
	}
	if rc.What&mem.ChangeTranslation != 0 {
		mr.d.place(&rc.RegionAttr)
	}
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if err := mr.t.Reregister(rc, mr.d.quiesce); err != nil {
		return mr.d.orClosed(own(err))
	}
	mr.refresh()
	return nil
}

// Rereg says what [MR.Reregister] changes (the flags of ibv_rereg_mr): the fields that are set.
type Rereg struct {
	Bytes     []byte    // the new memory; nil leaves the memory as it is
	Options   MROptions // of the new memory
	Access    Access    // the new rights, if SetAccess
	SetAccess bool
	PD        *PD // the new domain; nil leaves the region where it is
	// KeepKeys keeps the keys, as most drivers do, so that peers need not be told. It cannot be
	// combined with a change of memory.
	KeepKeys bool
}

// Close ends the region (ibv_dereg_mr): its keys are refused from then on, and work requests in
// progress that refer to the memory fail. It fails with ErrBusy while memory windows are bound to
// the region. Once it has returned, the device does not touch the memory any more.
func (mr *MR) Close() error {
	return mr.d.endMemory("MR", func() error {
		mr.mu.Lock()
		defer mr.mu.Unlock()
		if err := mr.t.Deregister(mr.d.quiesce); err != nil {
			return err
		}
		mr.info.Store(&mrInfo{})
		return nil
	})
}
