// Package endpoint is the local end of links that write whole Ethernet frames ([Local]):
// its addresses and the interfaces that they are on, the UDP sockets that reserve the port
// there, multicast groups, and the state as a port.
//
// # Concurrency
//
// Join, Leave, Path and what returns something may be called from anywhere after Open;
// Close after Stop.
package endpoint
