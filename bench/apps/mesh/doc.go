// Package mesh connects a group of processes, each with each, so that one can place bytes in
// the memory of another and tell it. It is what the all-reduce and the parameter server stand on.
//
// Each member, a rank, has an arena: memory of one size, the same in all members. [Link.Put]
// copies a piece of our arena into that of a peer, to an offset that we choose, and the peer's
// [Link.Next] says so with the tag of the piece. Nobody asks whether there is room: the algorithm
// has to know that the peer no longer needs what was there.
//
// Over RoCE a Put is a WRITE with immediate: the peer's adapter places the bytes, and its program
// gets only the tag. A short piece leaves from a copy, so that Flush need not wait for the peer, as
// with TCP. A long one leaves from the arena, and the tag behind it in a message of its own. Over
// TCP it is a header and the bytes, which a goroutine of the peer reads into the arena. So both
// networks run the same algorithm, and can be compared.
package mesh
