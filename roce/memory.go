package roce

import "github.com/goroce/goroce/roce/verbs"

// RemoteMemory names memory of the peer: Addr, its address there; RKey, the key to it;
// and Len, bytes. [Conn.Share] tells it to the peer, and [Conn.Shared] takes it.
type RemoteMemory = verbs.RemoteMemory

// RemoteMemoryBytes is the length of an encoded RemoteMemory.
const RemoteMemoryBytes = verbs.RemoteMemoryBytes

// Access says what may be done with memory.
type Access = verbs.Access

// What a peer may be allowed to do with memory.
const (
	RemoteWrite  = verbs.RemoteWrite
	RemoteRead   = verbs.RemoteRead
	RemoteAtomic = verbs.RemoteAtomic
)
