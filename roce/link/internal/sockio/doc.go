// Package sockio is what the links that use Linux sockets have in common:
// batched system calls ([Send], [Recv], [Reader]), datagrams gathered from headers and
// registered memory ([Batch]), the event file descriptor that ends a wait
// ([Waker]), and small facts about sockets and interfaces.
//
// # Invariants
//
//   - Nothing here blocks, and nothing allocates once buffers have grown.
//   - A Batch refers to memory that is not its own only until Reset.
//
// # Concurrency
//
// A Batch belongs to one sending side. A Waker may be used from anywhere.
package sockio
