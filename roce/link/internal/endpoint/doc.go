// Package endpoint is the local end of links with sockets. It has their addresses ([Base], [Face]),
// the state of their interfaces as a port ([Port]), and the sharing of addresses with other devices
// ([Share]). For links that write whole Ethernet frames, [Local] has the interfaces of the
// addresses, the UDP sockets that reserve the port there, and multicast groups.
//
// The udp link needs no reservation of the port, groups or neighbours: its sockets have the port, a
// group is one more of them, and the kernel knows its neighbours. It must also work without
// rtnetlink, and with addresses that are on no interface, so it follows interfaces in its own way.
//
// # Concurrency
//
// A Base and a Port may be used from anywhere; so may a Share, except for its receiving side. Join,
// Leave, Path and the getters of a Local may be called from anywhere after Open; Close after Stop.
package endpoint
