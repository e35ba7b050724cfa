// Package rdmacm has the subcommands of cmd/roce that stand in for the example programs of
// librdmacm: rping, ucmatose, udaddy, mckey, cmtime, rdma_server, rdma_client, rstream and
// riostream. Either side may be the original: the wire is the same, and so are the options and the
// text on standard output as far as they have a meaning here.
//
// All of them connect through the communication manager ([roce.CMID]), so that no TCP is needed;
// only cmtime has a TCP connection beside, as newer originals have. A port here is one of RDMA-CM,
// which belongs to the device: two servers on different local addresses can have the same one.
//
// Each tool is a goroutine; rping -P has one for each connection.
//
// rstream and riostream wait in calls, whatever -T says of blocking: with
// librdmacm that is a difference in how a process waits, which is not visible
// from outside. -T fork is -T sockets, which in turn is TCP.
//
// Not supported: -f gid, -P ib_addr and -M, which name InfiniBand addresses; port space IPoIB; the
// mesh of three and more peers of cmtime since rdma-core 59.
package rdmacm
