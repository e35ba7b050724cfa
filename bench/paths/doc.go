// Package paths measures goroce, TCP and QUIC where the network is not perfect: over a link in user
// space that has a rate, a delay, a queue that drops what does not fit, loss, order that changes,
// duplicates and marks of congestion.
//
// # Shape
//
// A [Path] is what a link is like. A lane is one direction of it, in virtual time: packets enter
// and leave, and what happens to them is drawn from a seed. The link is a process that moves
// packets between the TUN devices of two network namespaces, as a lane for each direction says.
// Each end is a process too, with the flows of one round. [Run] plays the cells of the table, and
// [Report] is what they gave.
//
// # What is counted where
//
// The link counts by protocol what enters, what is lost and what does not fit. It reads packet
// numbers, and so knows what a sender repeats, and what of that had not been lost: nobody has to be
// believed. A protocol that encrypts its numbers has no such figures. Goodput is what the receiving
// program has got.
//
// # Limits
//
// Linux, IPv4, and namespaces: root, or a user namespace. A link that falls behind says so.
package paths
