// Package fault is a link middleware that drops, duplicates, holds back, corrupts or changes chosen
// packets. A rule chooses a packet by its QP, its PSN and how often it has been seen, as
// conformance scenarios do: "the second transmission of PSN 5".
//
// Everything is decided by counting, nothing by time: a packet held back goes on its way after a
// given number of others.
//
// Sending: corruption reaches the peer as a wrong ICRC. Receiving: the link below has already
// verified the ICRC, so corruption is the same as a drop, and Mutate shows the engine packets that
// a broken peer might send.
package fault
