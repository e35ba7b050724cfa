package mem

import (
	"fmt"
	"strings"
)

// Access is a set of rights, with the bit values of ibv_access_flags. Local reads are always
// allowed.
type Access uint32

// The access flags.
const (
	LocalWrite      Access = 0x1   // receive into it; target of READ and atomic results
	RemoteWrite     Access = 0x2   // WRITE and ATOMIC WRITE; needs LocalWrite
	RemoteRead      Access = 0x4   // READ
	RemoteAtomic    Access = 0x8   // CMP_SWAP and FETCH_ADD; needs LocalWrite
	MWBind          Access = 0x10  // windows may be bound to it
	ZeroBased       Access = 0x20  // addresses are offsets from the first byte
	OnDemand        Access = 0x40  // accepted; pages of a process are always on demand here
	HugeTLB         Access = 0x80  // accepted; a hint about pages
	FlushGlobal     Access = 0x100 // FLUSH to global visibility
	FlushPersistent Access = 0x200 // FLUSH to persistence; needs RegionAttr.Persist

	// OptionalAccess are the bits that a provider may ignore (IBV_ACCESS_OPTIONAL_RANGE; 1<<20 of
	// it is relaxed ordering, which perftest sets). Registration drops them.
	OptionalAccess Access = 0x3FF00000
)

const (
	// remoteAccess are the rights that let a peer in.
	remoteAccess = RemoteWrite | RemoteRead | RemoteAtomic | FlushGlobal | FlushPersistent
	// regionAccess are the flags that a region may have.
	regionAccess = remoteAccess | LocalWrite | MWBind | ZeroBased | OnDemand | HugeTLB
	// windowAccess are the flags that a window may have (IBTA 10.6.7.2.2:
	// remote rights and zero-based addressing, nothing local).
	windowAccess = remoteAccess | ZeroBased
	// flushAccess are the rights that a window cannot have unless its region has them: they are
	// properties of the memory, not permissions of the owner.
	flushAccess = FlushGlobal | FlushPersistent
	// needsLocalWrite are the remote rights that change memory.
	needsLocalWrite = RemoteWrite | RemoteAtomic
)

// Has reports whether all rights of b are in a.
func (a Access) Has(b Access) bool { return a&b == b }

var accessNames = [...]string{
	"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED",
	"ON_DEMAND", "HUGETLB", "FLUSH_GLOBAL", "FLUSH_PERSISTENT",
}

// String names the flags, as in "LOCAL_WRITE|REMOTE_READ"; bits without a name are in
// hexadecimal, and no bits are "0".
func (a Access) String() string {
	if a == 0 {
		return "0"
	}
	var b strings.Builder
	for i, name := range accessNames {
		bit := Access(1) << i
		if a&bit == 0 {
			continue
		}
		a &^= bit
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		b.WriteString(name)
	}
	if a != 0 {
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%#x", uint32(a))
	}
	return b.String()
}

// checkRegionAccess returns a without the optional bits, or a description of what is wrong with it.
func checkRegionAccess(a Access) (Access, string) {
	a &^= OptionalAccess
	if bad := a &^ regionAccess; bad != 0 {
		return 0, fmt.Sprintf("unknown flags %#x", uint32(bad))
	}
	if a&needsLocalWrite != 0 && a&LocalWrite == 0 {
		// IBTA 11.2.8.2; ibv_reg_mr refuses it as well.
		return 0, (a & needsLocalWrite).String() + " needs LOCAL_WRITE"
	}
	return a, ""
}
