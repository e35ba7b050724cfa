// Package cc is congestion control for one queue pair at a time. A [Controller] receives events
// (bytes sent, CNPs, NAKs, timeouts) and returns the rate at which the QP may send. A [Pacer] turns
// the rate into batch sizes without a timer per packet. A [NotificationPoint] decides when a
// receiver of CE-marked packets sends a CNP.
//
// [NewDCQCN] reacts to notifications, which need switches that mark packets. Its profiles are
// [Paper] (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) and
// [Mellanox] (defaults of ConnectX NICs). [NewDelay] reacts to round trips and needs nothing from
// switches: it receives each [Round], and also sets the window. [Config] selects one by name, or
// none, which is the default.
//
// Rates count bits on an Ethernet cable. A CNP costs a fixed amount of work and cannot lower the
// rate below the profile's MinRate. Elapsed time costs one step for each period in which the rate
// still rose.
//
// The package is sans-IO: callers pass in time as int64 nanoseconds on the engine's scale, and
// nothing here allocates after construction. One goroutine at a time uses a value, under the
// engine's lock.
package cc
