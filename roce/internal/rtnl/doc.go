// Package rtnl asks the kernel about routes, neighbours and network interfaces
// over rtnetlink, and tells of their changes ([Conn], [Monitor]).
//
// It reads what links need and no more. Queries need no privilege; [Conn.Probe] needs
// CAP_NET_ADMIN. The sockets and the encoding are github.com/mdlayher/netlink's; the
// messages are read here, because no library reads all that links need (the gateway of
// another family, the limit of segmentation offload) and asks for single neighbours.
//
// A Conn and a Monitor stay in the network namespace of the thread that opened them.
//
// # Concurrency
//
// A Conn belongs to one goroutine at a time. A Monitor is read by one
// goroutine, and may be closed by any.
package rtnl
