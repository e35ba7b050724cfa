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
// the generation of the registration it came from, so that a stream of packets
// re-checks in a nanosecond that it has not been revoked meanwhile.
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
//   - Memory is given back (RegionAttr.OnRelease) in the call that revokes its key.
//     Whoever keeps a View or SGL asks Valid before each use, and packets that refer to
//     memory have left before the next call.
//   - Memory that was mapped may go away under its region. Nothing here guards against that:
//     an access panics, if whoever drives the engine has set debug.SetPanicOnFault, and
//     ends the process otherwise. [FaultAddr] recognises the panic, [Table.Lose] gives the
//     region up. Memory that is unmapped and then mapped by somebody else
//     is theirs: nobody can tell.
//   - Bad input of any kind gives a Fault or a typed error ([*OpError]).
//     The one panic is for an unbalanced Release in the engine above, as for a mutex.
//
// # Concurrency
//
// A Table and everything that belongs to it is not locked: the owner (the shell) serialises
// calls with those of the engine. The registered bytes themselves are shared with the
// application; an application that touches a word with sync/atomic composes
// with the remote atomics of [View], which use the CPU's own.
//
// # Limits
//
// See limits.go. Lookups are O(1); binding and revoking too.
package mem
