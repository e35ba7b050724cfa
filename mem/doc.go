// Package mem holds what a device knows about memory: protection domains,
// memory regions and windows, the keys that name them, the access checks of
// the data path, scatter/gather lists, and atomic operations on registered
// bytes.
//
// # Shape
//
// A [Table] owns all keys of one device. [PD], [Region] and [Window] are the
// verbs objects of the same names. On the data path there are four calls:
// [Table.Local] checks one scatter/gather element, [Table.Resolve] a list of
// them, [Table.Remote] the key, address and length that a peer sent, and
// [Table.Invalidate] takes a key away. They answer with a [Fault], a small
// integer, and never allocate. What they hand out ([View], [SGL]) remembers
// the grant that it came from, so that a stream of packets re-checks in a nanosecond
// that it has not been revoked meanwhile.
//
// # Keys
//
// A key is a random 24-bit index above an 8-bit variant. Index and first variant come from
// the random source given to [NewTable]: a key that can be guessed is remote
// write access (ReDMArk, USENIX Security 2021), and sequential keys, which
// rxe and several NICs hand out, can be guessed. The consumer chooses the
// variant only when it binds a type 2 window. An index that was freed is
// quarantined before it can be drawn again, so a stale key does not come to
// name someone else's memory.
//
// A region has one key value for both uses (LKey equals RKey, as on rxe 6.12 and
// ConnectX), and RKey reports 0 when no remote right was granted (as rxe 6.1),
// so that a forgotten access flag shows early. Whatever a peer sends, the
// rights of the region decide.
//
// # Invariants
//
//   - A slice handed out lies inside the region (or window) it was asked of,
//     with its capacity cut to its length: not even an append can reach a
//     neighbour's byte.
//   - No sum of an address and a length is ever formed before it is known not
//     to wrap.
//   - A key stops matching in the call that revokes it: Deregister, Reregister,
//     Bind, Invalidate, Dealloc. A View or SGL from before is no longer Valid.
//   - Memory is given back (RegionAttr.OnRelease) in the call that revokes its key, when no engine
//     uses it any more: see Concurrency. Whoever keeps a View or SGL asks Valid before each use,
//     and packets that refer to memory have left before the engine rests.
//   - Memory that was mapped may go away under its region. Nothing here guards against that:
//     an access panics, if whoever drives the engine has set debug.SetPanicOnFault, and
//     ends the process otherwise. [FaultAddr] recognises the panic, [Table.Lose] gives the
//     region up. Memory that is unmapped and then mapped by somebody else
//     is theirs: nobody can tell.
//   - Bad input of any kind gives a Fault or a typed error ([*TableError]).
//     The one panic is for an unbalanced Release in the engine above, as for a mutex.
//
// # Concurrency
//
// The engines of a device share one Table, and each of them may be at work on a core of its own.
// All methods may be called at the same time as any others, but for those of an [SGL] and a
// [Cursor], which belong to one goroutine.
//
//   - Lookups take no lock and write nothing that is shared: [Table.Local], [Table.Resolve],
//     [Table.Remote], [Table.RemoteWhole], [View.Valid], [SGL.Valid] and the getters of a Region.
//     They read a published table of grants that do not change (keys.go, grant.go). A lookup finds
//     a key that stays while it runs, and does not find one that was revoked before it began.
//   - All else takes the Table's lock, [Table.BindWR] and [Table.Invalidate] included. That lock is
//     a leaf: an engine may call with its own held.
//   - A key that is revoked may still be in use: an engine may have found it just before, and be
//     copying. So Deregister, Reregister, Bind, Dealloc and Clear are given a function quiesce,
//     which waits until each engine has been at rest once; only then is memory given back, and does
//     the call return. [Table.BindWR], [Table.Invalidate] and [Table.DetachQP] have no such
//     function: type 2 windows are for one queue pair, and its engine makes those calls. So queue
//     pair numbers are unique among the engines of a Table.
//   - An engine that meets memory that is not there calls [Table.Lose]. It knows memory also while
//     that is revoked and not given back.
//
// The registered bytes themselves are shared with the application, and engines do not wait for each
// other: what two peers write to the same bytes at the same time, by different engines, is mixed,
// as with the engines of an adapter. An application that touches a word with sync/atomic composes
// with the remote atomics of [View], which use the CPU's own.
//
// # Limits
//
// See limits.go. Lookups are O(1); binding and revoking too.
package mem
