// Package attack measures what strangers can do: it sends the packets of an attacker who is not on
// the path to a server, or to its client, and measures both before and during that. Its table is in
// docs/security.md.
//
// # Shape
//
// [Run] plays one [Attack] after the other. Each has processes of its own, all at loopback
// addresses: a server, a client that transfers, asks or dials, perhaps idle devices of the server's
// address, and the attacker. They are this program again ([Child]). A process tells what it has
// done when it is asked, and what is measured is the difference between two answers.
//
// # What the attacker knows
//
// It has what its [Attack] says, and no more: it draws what it has to guess. It does not see
// packets, but for the replayed READ. Its addresses may be forged, as in networks that do not
// filter.
//
// # Limits
//
// Linux, any user. Attacker and victims share the processors: what a flood costs includes the
// kernel's work for each packet, and the row of packets for nobody says how much that is.
package attack
