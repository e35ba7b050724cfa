// Package rtnl asks the kernel about routes, neighbours and network interfaces
// over rtnetlink, and tells of their changes ([Conn], [Monitor]).
//
// It reads what the links that write their own Ethernet headers need and no
// more. Queries need no privilege; [Conn.Probe] needs CAP_NET_ADMIN.
//
// # Concurrency
//
// A Conn belongs to one goroutine at a time. A Monitor is read by one
// goroutine, and may be closed by any.
package rtnl
