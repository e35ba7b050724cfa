// Package endpoint is the local end of links with sockets: the state of their interfaces as a port
// ([Port]); and for links that write whole Ethernet frames ([Local]), the addresses and the
// interfaces that they are on, the UDP sockets that reserve the port there, and multicast groups.
//
// # Concurrency
//
// A Port may be used from anywhere. Of a Local, Join, Leave, Path and what returns something may be
// called from anywhere after Open; Close after Stop.
package endpoint
