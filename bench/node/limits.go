package node

import "time"

const (
	// RegionBytes is the memory of a node; cases use all of it or a part.
	RegionBytes = 64 << 20
	// maxMessage is the size of receive buffers, and of the largest message.
	maxMessage = 1 << 20
	// recvDepth is how many receives are posted; more than messages under way.
	recvDepth = 512
	// sendDepth is the size of send queues.
	sendDepth = 512
	// rawWindow is how many bytes the ceiling has under way.
	rawWindow = 512 << 10
	// rawBatch is how many packets are handed to a link at a time: one turn of a
	// queue pair in the engine.
	rawBatch = 60
	// rawSpin is how long a receiver of the ceiling looks before it blocks, as a
	// device does.
	rawSpin = 30 * time.Microsecond
	// rawStall is after how long without progress packets are taken to be lost.
	rawStall = 100 * time.Millisecond
	// blockNs bounds waits that a Stop has to end.
	blockNs = 10_000_000
	// giveUp bounds everything that waits for a peer.
	giveUp = 30 * time.Second
)
