// Package endpoint is the local end of links with sockets ([Base], [Face]): their addresses, and
// the state of their interfaces as a port ([Port]); what they have to do with other devices at
// their addresses ([Share]); and for links that write whole Ethernet frames ([Local]) the
// interfaces that the addresses are on, the UDP sockets that reserve the port there, and multicast
// groups.
//
// What reserves the port, groups and neighbours is no matter of the udp link: its sockets have the
// port, a group is one more of them, and the kernel knows its neighbours. It also has to do without
// rtnetlink, and with addresses that are on no interface, so it follows interfaces in its own way.
//
// # Concurrency
//
// A Base and a Port may be used from anywhere; a Share, too, except for what is of the receiving
// side. Of a Local, Join, Leave, Path and what returns something may be called from anywhere after
// Open; Close after Stop.
package endpoint
