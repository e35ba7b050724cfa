package verbs

import (
	"time"

	"github.com/goroce/goroce/ib"
)

// maxSpin bounds Config.Spin: longer than that is polling.
const maxSpin = time.Second

// maxAsyncEvents bounds the asynchronous events that wait for the
// application; later ones are dropped and counted.
const maxAsyncEvents = 4096

// Defaults of queue pairs, for fields of QPCaps that are 0.
const (
	defaultMaxWR  = 128
	defaultMaxSGE = 4
)

// Defaults of connections (see [QP.Connect]).
const (
	// defaultTimeout is the code of the ACK timeout: 67 ms.
	defaultTimeout ib.TimeoutCode = 14
	// defaultRetry is the most there are.
	defaultRetry = 7
	// defaultRNRRetry stands for ever.
	defaultRNRRetry = 7
	// defaultMinRNRTimer is 0.64 ms. Code 0, which many programs leave in place,
	// is 655 ms.
	defaultMinRNRTimer ib.RNRCode = 12
	// defaultRdAtomic is the depth of READs and atomics in both directions.
	defaultRdAtomic = 16
	defaultHopLimit = 64
)

// maxShards is how many slots an address has: each shard takes one.
const maxShards = 64

// retryShardNs is how long a shard that could not be opened is not tried again, nanoseconds: as
// long as the slot rests of a device that has just gone.
const retryShardNs = 2e9

// maxDefaultShards bounds Config.Shards where it is not given. See docs/design.md.
const maxDefaultShards = 8

// maxObjects is what Device.Attr reports for kinds of objects that nothing
// but memory bounds.
const maxObjects = 1 << 20

// reservedIDs is where the IDs of work requests begin that roce.Conn posts by itself.
const reservedIDs = 1 << 62
