// Package nexthop answers, for links that write their own Ethernet headers, where a packet goes
// next: the interface and the two MAC addresses. It asks the kernel's routes and neighbour table
// and follows their changes.
//
// # How
//
// [Table.Get] never waits for a neighbour. The [State] of its [Hop] is Pending until the kernel
// resolves the neighbour; a known neighbour, and a multicast group, is Ready at once.
//
// One goroutine reads notifications. Another asks the kernel, and makes it probe: if the neighbour
// of a hop in use goes stale, it is confirmed, as the kernel would for its own packets. A hop whose
// entry is removed keeps the old MAC until the kernel has another, or has failed. [Table.Follow]
// reports when local addresses move to other interfaces.
//
// # Invariants
//
//   - A State never changes; a Hop's pointer to it does. A sender that has prepared a header for a
//     State compares pointers.
//   - At most maxHops hops are remembered; those not used recently are evicted, and their state
//     says so.
//
// # Concurrency
//
// Everything may be called from anywhere. Callbacks run on the table's goroutines.
//
// # Limits
//
// If a route has several next hops, the kernel picks one for all flows of a pair of addresses.
package nexthop
