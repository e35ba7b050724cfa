package node

import (
	"math"
	"time"
)

const (
	// RegionBytes is the memory of a node; cases use all of it or a part.
	RegionBytes = 64 << 20
	// maxMessage is the size of receive buffers, and of the largest message.
	maxMessage = 1 << 20
	// recvDepth is how many receives are posted: as many again as there are messages
	// under way, because one may follow before its receive is posted anew.
	recvDepth = 2 * sendDepth
	// sendDepth is the size of send queues.
	sendDepth = 512
	// rawWindow is how many bytes the ceiling has under way.
	rawWindow = 512 << 10
	// rawBatch is how many packets are handed to a link at a time: one turn of a
	// queue pair in the engine.
	rawBatch = 60
	// rawSpin is how long a receiver of the ceiling looks before it blocks: as a
	// device does where packets come soon.
	rawSpin = 200 * time.Microsecond
	// rawStall is after how long without progress packets are taken to be lost.
	rawStall = 100 * time.Millisecond
	// maxLostEchoes is how many round trips of the ceiling may be lost; they do not count.
	maxLostEchoes = 10
	// blockNs bounds waits that a Stop has to end.
	blockNs = 10_000_000
	// forever is for waits that something else ends.
	forever = time.Duration(math.MaxInt64)
	// giveUp bounds everything that waits for a peer.
	giveUp = 30 * time.Second
)
