// Package raftroce carries hashicorp/raft over RDMA, in two ways.
//
// [StreamLayer] gives raft's own NetworkTransport rsockets in place of TCP: ten lines, and nothing
// else of a program changes.
//
// [Transport] is a raft.Transport that uses what RDMA has.
//
// # Who writes what into whose memory
//
// Each follower lends who connects to it a ring: memory that this peer alone may write to.
//
//	leader                                       follower
//	AppendEntries  WRITE with immediate ──────>  ring, and its program is told the length
//	               <───────────────────── SEND   answer
//	snapshot       request in the ring ───────>
//	   window      <───────────────────── READ   its adapter fetches, the leader's program sleeps
//	               <───────────────────── SEND   "more", and at the end the answer
//
// Where a request is in the ring nobody has to say: both sides count. A request begins where the
// one before it ended, or at the start if it would reach beyond the end. An answer gives the space
// of its request back, so the leader never writes where something is that was not read: answers are
// the credits. Requests are encoded into a mirror of the ring, from which the adapter takes them:
// no copy between, and as they stay there until they are answered, a packet that is lost can be
// sent again.
package raftroce
