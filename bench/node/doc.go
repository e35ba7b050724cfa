// Package node is one end of a measurement: a process of its own that a coordinator starts, in a
// network namespace or not, and drives by calls over its standard streams.
//
// A Node holds at most one device with its queue pairs, one link without protocol (the ceiling),
// and a TCP listener, all on the same memory, so that they are compared on equal terms. What
// receives (sinks and echoes) runs only between Serve and Stop: a peer that spins would slow down
// whatever is measured next.
//
// Flow control of the ceiling is an oracle: the receiver counts bytes in memory that both processes
// share. The sender's wait for it is not counted as CPU time.
//
// # Concurrency
//
// The coordinator makes one call at a time.
//
// # Limits
//
// Linux. CPU time is that of the two processes, with the kernel's work that was done in their
// context, which between namespaces is nearly all of it; that of kernel threads is not in it.
package node
