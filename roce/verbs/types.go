package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// GID names an address of a port: an IPv4 address as ::ffff:a.b.c.d, or an IPv6 address (ibv_gid).
// ib.GIDFromAddr converts an address, and its method Addr converts back.
type GID = ib.GID

// Service types of queue pairs (ibv_qp_type), for [QPInitAttr].
const (
	RC = ib.RC // reliable connection
	UC = ib.UC // unreliable connection
	UD = ib.UD // unreliable datagram
)

// Access is a set of rights to memory (ibv_access_flags, same bit values). A region, a window and a
// queue pair each have one; a peer may do what all of them grant. Local reads need no right.
type Access = mem.Access

// The access flags.
const (
	LocalWrite      Access = mem.LocalWrite      // receives, and the results of READs and atomics, may be placed in it
	RemoteWrite     Access = mem.RemoteWrite     // peers may WRITE; needs LocalWrite
	RemoteRead      Access = mem.RemoteRead      // peers may READ
	RemoteAtomic    Access = mem.RemoteAtomic    // peers may FETCH_ADD and CMP_AND_SWP; needs LocalWrite
	MWBind          Access = mem.MWBind          // windows may be bound to the region
	ZeroBased       Access = mem.ZeroBased       // addresses are offsets from the first byte
	FlushGlobal     Access = mem.FlushGlobal     // peers may FLUSH to global visibility
	FlushPersistent Access = mem.FlushPersistent // peers may FLUSH to persistence; needs MROptions.Persist

	// AccessAll is everything that ordinary memory can grant.
	AccessAll Access = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind | FlushGlobal
)

// WindowType is the type of a memory window (ibv_mw_type, which has one type 2).
type WindowType = mem.WindowType

// The types of memory windows (IBTA 10.6.7.2).
const (
	WindowType1 WindowType = mem.Type1 // bound by [MW.Bind]; any queue pair of the domain can use it
	// Bound by a work request, for its queue pair, which cannot be closed meanwhile.
	WindowType2A WindowType = mem.Type2A
	// As 2A, but closing the queue pair unbinds it; rdma_rxe and ConnectX have this type.
	WindowType2B WindowType = mem.Type2B
)
