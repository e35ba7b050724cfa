// Package nexthop answers, for links that write their own Ethernet headers,
// where a packet goes next: the interface and the two MAC addresses. It asks
// the kernel's routes and neighbour table and follows their changes.
//
// # How
//
// [Table.Get] never waits for a neighbour. The [State] of its [Hop] is Pending until the
// kernel resolves the neighbour; for a neighbour it already knows, and for a multicast
// group, it is Ready at once.
//
// One goroutine reads notifications. Another asks the kernel, and makes it probe: a hop
// whose neighbour goes stale while it is in use, as the kernel would for its own packets.
// A hop whose entry is removed keeps the old MAC until the kernel has another, or has
// failed. [Table.Follow] tells when local addresses go to other interfaces.
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
