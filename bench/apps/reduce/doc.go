// Package reduce sums vectors of float32 over a group of processes (all-reduce), as training of
// neural networks and iterative solvers need it, in three topologies: a ring, a star and a full
// mesh. [Server] and [Worker] do the same with a parameter server.
//
// # Who writes what into whose memory
//
// A member's arena is its vector and, behind it, an inbox. The vector is cut into blocks, and these
// into a piece for each rank, which owns its sum.
//
//	Ring      each rank writes to the next one only. Pieces wander round once and are summed on the
//	          way (into the inbox of the next rank), then the sums wander round (into its vector).
//	          2 (n-1) steps; every rank sends 2 (n-1)/n of the vector, whatever n is.
//	Star      everybody writes its vector into the inbox of rank 0, which writes the sum into
//	          everybody's vector. 2 steps; rank 0 sends and receives n-1 vectors.
//	FullMesh  each rank writes piece k into the inbox of rank k, which sums, and writes the sum into
//	          everybody's vector. 2 steps, 2 (n-1)/n of the vector.
//
//	ring of three, piece A of a block, by WRITE with immediate:
//
//	rank 0                  rank 1                  rank 2
//	vector A0 ──WRITE──>    inbox: A0
//	                        A0+A1 ────WRITE──>      inbox: A0+A1
//	                                                A0+A1+A2, into its vector
//	vector: the sum  <─────────────────────WRITE──  vector A
//	vector A ──WRITE──>     vector: the sum
//
// Nobody asks whether an inbox is free, and no credits are sent: the algorithm says it. The sum of
// a piece comes back to all, and contains what everybody has read from its inbox. So four blocks
// are under way at a time, and a block begins when the fourth before it is summed: an inbox has
// room for four, which mostly stay in the cache, whatever the length of the vector. A piece is
// summed while the next ones arrive. The sum may be written into a vector because it contains what
// that vector held: its owner has sent it and is waiting.
//
// # The parameter server
//
// Servers keep a part of the parameters each; every worker has a slot in the memory of each server.
//
//	Worker  writes its gradient into its slots, piece by piece, and waits for as many pieces of parameters.
//	Server  applies each piece when it comes, copies the parameters into the outbox of the worker, once the
//	        slowest worker is near enough ([Shared.Staleness]), and writes that into the worker's memory.
//
//	worker                              server
//	gradient  ── WRITE with immediate ──>  slot of the worker, a piece; the server adds it
//	parameters  <── WRITE with immediate ──  outbox of the worker
//
// Without staleness all workers go in step, so that one goroutine of the server waits for all links
// in turn, and one outbox serves all. A goroutine for each worker would be woken for each piece.
//
// The answer to a piece is also what says that its slot is free, so that here, too, no credits are
// sent.
package reduce
