// Package nexthop answers, for links that write their own Ethernet headers,
// where a packet goes next: the interface and the two MAC addresses. It asks
// the kernel's routes and neighbour table and follows their changes.
//
// # How
//
// [Table.Get] returns a [Hop] without waiting for a neighbour; its [State] is Pending
// until the kernel has resolved it, which for a neighbour that it knows it has. One goroutine reads notifications, another asks and makes
// the kernel probe. A hop whose neighbour goes stale while it is in use is
// probed again, as the kernel would for its own packets; one whose entry is
// removed keeps the old MAC until the kernel has another, or has failed.
// [Table.Follow] tells when local addresses go to other interfaces.
//
// # Invariants
//
//   - A State never changes; a Hop's pointer to it does. A sender that has
//     prepared a header for a State compares pointers.
//   - At most maxHops hops are remembered; those not used lately are evicted,
//     and say so by their state.
//
// # Concurrency
//
// Everything may be called from anywhere. Callbacks run on the table's
// goroutines.
//
// # Limits
//
// Of a route with several next hops the kernel picks one for all flows of a pair of
// addresses.
package nexthop
