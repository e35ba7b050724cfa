package roce

import "github.com/goroce/goroce/roce/verbs"

// RemoteMemory names memory of the peer: Addr, its address there; RKey, its key; and Len, its
// length in bytes. [Conn.Share] sends one, and [Conn.Shared] receives it.
type RemoteMemory = verbs.RemoteMemory

// RemoteMemoryBytes is the length of an encoded RemoteMemory.
const RemoteMemoryBytes = verbs.RemoteMemoryBytes

// Access says what may be done with memory.
type Access = verbs.Access

// The rights that a peer can be given.
const (
	RemoteWrite  = verbs.RemoteWrite
	RemoteRead   = verbs.RemoteRead
	RemoteAtomic = verbs.RemoteAtomic
)
