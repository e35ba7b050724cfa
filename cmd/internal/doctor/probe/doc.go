// Package probe tries the path between two machines with packets that look like RoCE v2: UD SENDs
// to UDP port 4791 with a right ICRC, from a port such as queue pairs send from. What is in them
// are questions; a [Server] on the other machine says what it saw of each, so that [Run] can tell
// what the path does to packets in each direction.
//
// Neither side needs privileges. With CAP_NET_RAW it sees the IPv4 header, too, of which the ICRC
// covers more than a UDP socket shows: the identification and the flag DF. Without, it says that it
// has not seen them.
//
// # What a stranger gets
//
// No answer is longer than its question, and none but a welcome goes to an address that has not
// shown that it receives there, by a token from the welcome before. Welcomes are limited in number.
// What a server remembers is bounded: beyond that the oldest goes. Answers are never answered, so
// that two servers cannot be set upon each other.
//
// # Concurrency
//
// A Server runs in one goroutine, Run in the caller's and one that receives.
package probe
