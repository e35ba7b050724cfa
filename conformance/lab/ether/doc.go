// Package ether is the Ethernet between the peers under test: a small learning switch in user
// space. It sees every frame, so it can drop, double, hold back, damage or rewrite one chosen
// packet, and capture everything.
//
// # Model
//
// A Switch has Ports; a port is anything that reads and writes one frame at a time: a tap device,
// one end of a datagram socket pair whose other end is QEMU's, or a pair of functions (AttachFunc),
// by which package switchlink puts a switch before a device. A frame that enters is learned,
// decoded if it is RoCE v2 (UDP to port 4791), offered to the rules in the order in which they were
// added (the first that acts decides), traced, and queued to its way out.
//
// A Rule matches packets by where they entered, addresses, destination QP, opcode and PSN, and acts
// on the Nth match and Times-1 more. "The second time that PSN p of QP q goes by" is {QPN: q, PSN:
// p, Nth: 2}. Rule.Hits tells how often it acted: a fault test whose rule never acted has tested
// nothing. ParseRule reads rules from text, for "roce wire", which puts a Switch between two
// interfaces.
//
// # Offloads
//
// Neither kind of port offers checksum or segmentation offload, so that what enters are frames as
// on a cable: the kernel segments UDP_SEGMENT sends and fills checksums before the tap sees them.
//
// # Concurrency
//
// One goroutine reads each port and one writes it; rules, learning and tracing happen under one
// lock, in the order in which frames entered. Match and Rewrite functions run under that lock and
// must not call the Switch. Order within a pair of ports is kept unless a rule changes it.
//
// # Limits
//
// A port's queue holds queueFrames frames, then drops (counted, and none are dropped in
// the conformance runs). Frames hold at most MaxFrame bytes.
package ether
