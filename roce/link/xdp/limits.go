package xdp

import "time"

const (
	// chunkBytes is the size of a UMEM chunk: the kernel allows no more than a page.
	chunkBytes = 4096
	// kernelHeadroom is what the kernel keeps free at the front of a received
	// chunk (XDP_PACKET_HEADROOM).
	kernelHeadroom = 256
	// rxChunkBytes is how much of a received frame fits one chunk.
	rxChunkBytes = chunkBytes - kernelHeadroom

	// slotChunks is how many chunks a frame to send has, if it may have several: the longest frame
	// is some 4,250 bytes.
	slotChunks = 2
	// slotSlack is what a packet being written needs behind its end.
	slotSlack = 8

	// Defaults and bounds of how many frames each direction of a queue has, 4 KiB each for
	// receiving, 8 KiB for sending. Powers of two.
	defaultRxFrames = 2048
	defaultTxFrames = 512
	minFrames       = 8
	maxFrames       = 1 << 16

	// maxQueues is how many receive queues of an interface are served.
	maxQueues = 64
	// maxFrameBytes is the longest frame that is put together from chunks: an IP packet of 64 KiB.
	maxFrameBytes = 64<<10 + 64
	// maxFrameChunks is the most chunks of such a frame.
	maxFrameChunks = 32
	// arenaBytes holds the frames of one Recv that were in several chunks.
	arenaBytes = 256 << 10

	// maxAddrs is how many addresses and multicast groups an interface answers to.
	maxAddrs = 4096

	// backlogBytes bounds the packets that wait for frames to come back from the kernel.
	backlogBytes = 4 << 20

	// retryEvery is how often a blocked sender tries again: the kernel does not tell when a driver
	// has completed a frame.
	retryEvery = 100 * time.Microsecond
	// maxKicks bounds the system calls in a row that make the kernel send.
	maxKicks = 64
	// kickFrames is how many frames such a call sends at most, by default.
	kickFrames = 32

	// socketBufferBytes is the size to ask for: in copy mode the kernel accounts frames on their
	// way to it.
	socketBufferBytes = 16 << 20

	// bindPatience is how long to wait for a queue that is still in use, bindRetry how often to
	// try.
	bindPatience = time.Second
	bindRetry    = 2 * time.Millisecond

	// maxSearches is how many frames in a row may be searched without finding packets.
	maxSearches = 16
)
