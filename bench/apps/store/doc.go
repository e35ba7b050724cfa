// Package store is a block store with replicas: what is written is in the memory of all of them,
// and what is flushed is on their disks.
//
// # Who writes what into whose memory
//
//	client (Volume)                               replica (its program sleeps)
//	WriteBlock  WRITE of version, checksum, data ──>  slot of the block, in a file that is mapped
//	            to all replicas, side by side
//	ReadBlock   READ of the slot  ──────────────────>  of one replica, the next time of another
//	Flush       FLUSH to persistence ───────────────>  its adapter calls msync, and answers then
//
// A replica's program takes part only when a client connects: it lends its memory under a new key,
// and closes the region of the client before. So there is one writer, the newest: what an older one
// still sends is refused, since its key is no longer good. That is fencing without a lease and
// without clocks.
//
// # What may fail
//
// A WRITE that is cut off in the middle, by the end of the client or the power of the replica,
// leaves a slot whose checksum is wrong. So a block has two slots, and a write goes to the one that
// has not what was flushed last: that is there whatever happens. A block that was acknowledged and
// not flushed survives all but one of the replicas, unless the client ends while it writes the same
// block again.
//
// When a replica fails, the client says so in the superblock of the others, before it acknowledges
// anything that the failed one does not have. It keeps a log of the blocks that the failed one
// misses: those that were written since its last flush, and all later ones. It dials until the
// replica is back and copies what it misses. Then it keeps writes out, flushes all, and takes the
// mark away: first from those that had it. If one of them fails meanwhile, nobody knows what its
// superblock says, and the one that came back is not admitted. So of two replicas never each says
// that the other one is old.
//
// When a client opens a volume, replicas that are named in the mark of another one are not
// believed, and all others must be there. Nobody knows what the client before had under way: the
// newest version of a block with a right checksum counts, and is written to those that do not have
// it. The client takes the next epoch, which is the upper part of its versions. Where a replica is
// marked, every block is written again with a version of that epoch: what only the marked one has,
// and nobody has read meanwhile, never comes back.
package store
