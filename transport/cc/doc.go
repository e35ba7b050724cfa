// Package cc is congestion control for one queue pair at a time: a
// [Controller] is told what happens (bytes sent, CNPs, NAKs, timeouts) and
// says at what rate the QP may send. A [Pacer]
// turns the rate into batch sizes without a timer per packet, and a
// [NotificationPoint] decides when a receiver of CE-marked packets sends a CNP.
//
// [NewDCQCN] listens to notifications, which switches cause that mark packets, with the profiles [Paper] (Zhu et al.,
// "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) and
// [Mellanox] (defaults of ConnectX NICs). [NewDelay] listens to round trips, and needs
// nothing of switches: it is told each ([Round]), and says what the window is as well. [Config] selects among them by name, or
// none, which is the default.
//
// A rate is one of bits on an Ethernet cable. A CNP can lower it to MinRate of
// the profile and no further, and costs a fixed amount of work; time that has
// passed costs a step for each period in which the rate still rose.
//
// The package is sans-IO: time comes in as int64 nanoseconds on the engine's
// scale, and nothing here allocates after construction. Values are used by one
// goroutine at a time, under the engine's lock.
package cc
