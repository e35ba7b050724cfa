// Package mem holds what a device knows about memory: protection domains, memory regions and
// windows, the keys that name them, the access checks of the data path, scatter/gather lists, and
// atomic operations on registered bytes.
//
// # Shape
//
// A [Table] owns all keys of one device. [PD], [Region] and [Window] are the verbs objects of the
// same names. The data path uses four calls: [Table.Local] checks one scatter/gather element,
// [Table.Resolve] a list of them, and [Table.Remote] the key, address and length that a peer sent;
// [Table.Invalidate] revokes a key. They return a [Fault], a small integer, and never allocate.
// Their results ([View], [SGL]) remember the grant that they came from. So the packets of a message
// can check in a nanosecond each that it has not been revoked meanwhile.
//
// # Keys
//
// A key is a random 24-bit index above an 8-bit variant. Index and first variant come from the
// random source given to [NewTable]. A key that can be guessed is remote write access (ReDMArk,
// USENIX Security 2021), and the sequential keys of rxe and several NICs can be guessed. The
// consumer chooses the variant only when it binds a type 2 window. A freed index is quarantined
// before it can be drawn again, so a stale key does not come to name other memory.
//
// A region has one key value for both uses (LKey equals RKey, as on rxe 6.12 and ConnectX). RKey
// reports 0 when no remote right was granted (as rxe 6.1), so that a forgotten access flag shows
// early. Whatever a peer sends, the rights of the region decide.
//
// # Invariants
//
//   - A slice handed out lies inside its region (or window), with its capacity cut to its length:
//     not even an append can reach a neighbouring byte.
//   - No sum of an address and a length is formed before it is known not to wrap.
//   - A key stops matching in the call that revokes it: Deregister, Reregister, Bind, Invalidate,
//     Dealloc. An earlier View or SGL is then no longer Valid.
//   - Memory is given back (RegionAttr.OnRelease) in the call that revokes its key, once no engine
//     uses it any more: see Concurrency. Engines call Valid before each use of a View or SGL, and
//     packets that refer to memory have left before the engine rests.
//   - Mapped memory may go away under its region. Nothing here guards against that: an access
//     panics if the program that drives the engine has called debug.SetPanicOnFault, and ends the
//     process otherwise. [FaultAddr] recognises the panic, and [Table.Lose] gives the region up.
//     If the owner unmaps memory and something else is mapped in its place, accesses reach the new
//     memory: this cannot be detected.
//   - Bad input of any kind gives a Fault or a typed error ([*TableError]). The one panic is for
//     an unbalanced Release in the engine above, as for a mutex.
//
// # Concurrency
//
// The engines of a device share one Table, and each may run on a core of its own. All methods may
// be called concurrently, except those of an [SGL] and a [Cursor], which belong to one goroutine.
//
//   - Lookups take no lock and write nothing that is shared: [Table.Local], [Table.Resolve],
//     [Table.Remote], [Table.RemoteWhole], [View.Valid], [SGL.Valid] and the getters of a Region.
//     They read a published table of grants that do not change (keys.go, grant.go). A lookup finds
//     a key that exists throughout it, and does not find one that was revoked before it began.
//   - All other methods take the Table's lock, [Table.BindWR] and [Table.Invalidate] included. That
//     lock is a leaf: an engine may call these methods with its own lock held.
//   - A revoked key may still be in use: an engine may have found it just before, and be copying.
//     So Deregister, Reregister, Bind, Dealloc and Clear take a function quiesce, which waits until
//     each engine has been at rest once. Only then do they give the memory back and return.
//     [Table.BindWR], [Table.Invalidate] and [Table.DetachQP] have no such function: type 2 windows
//     belong to one queue pair, and its engine makes those calls. So queue pair numbers must be
//     unique among the engines of a Table.
//   - An engine that meets memory that is not there calls [Table.Lose], which also recognises
//     memory that was revoked but not given back yet.
//
// The registered bytes themselves are shared with the application, and engines do not wait for each
// other: if two peers write to the same bytes at the same time through different engines, the
// results mix, as with the engines of an adapter. An application that accesses a word with
// sync/atomic composes with the remote atomics of [View], which use the CPU's own.
//
// # Limits
//
// See limits.go. Lookups take O(1) time, as do binding and revoking.
package mem
