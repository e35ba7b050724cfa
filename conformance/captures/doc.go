// Package captures makes captures with faults in them, and judges what roce/analyse says of them.
//
// # Scenes
//
// A Scene is a few operations between two peers, of which each may be rdma_rxe or goroce, with one
// fault that the lab's wire injects (conformance/lab/ether), or one mistake of the application. It
// is recorded at both ends at once. What is written down with it, a Record, comes from the
// injector: which packet was hit, what happened to it, in which frames of either capture it is, and
// which kind of finding each end must give. The analyser has no part in that.
//
// # Judging
//
// Judge holds a report against a Record: each kind that is wanted is there, at the right packet,
// and there is nothing else. A finding is at the right packet if its first frame holds the packet
// that was hit. Where a capture lacks that packet, it is the first behind it to the same queue
// pair, or the request that it would have answered.
//
// # Data
//
// testdata holds what the captures command of conformance/cmd/lab has recorded, and [Table] makes
// the table of it in CAPTURES.md.
package captures
