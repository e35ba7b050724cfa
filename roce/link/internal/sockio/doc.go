// Package sockio is what links that use Linux sockets share: batched system calls ([Send], [Recv],
// [Reader]), datagrams gathered from headers and registered memory ([Batch]), the wait for
// descriptors ([Poller]) and its end ([Waker]), and small facts about sockets and interfaces.
//
// # Invariants
//
//   - Only [Poller.Poll] blocks, and nothing allocates once buffers have grown.
//   - A Batch refers to memory that is not its own only until Reset.
//
// # Concurrency
//
// A Batch belongs to one sending side. A Waker may be used from anywhere.
package sockio
