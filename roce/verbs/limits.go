package verbs

import (
	"time"

	"github.com/goroce/goroce/ib"
)

// maxSpin bounds Config.Spin: a longer spin is polling.
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
	// defaultRetry is the maximum.
	defaultRetry = 7
	// defaultRNRRetry means for ever.
	defaultRNRRetry = 7
	// defaultMinRNRTimer is 0.64 ms. Code 0, which many programs leave in place, is 655 ms.
	defaultMinRNRTimer ib.RNRCode = 12
	// defaultRdAtomic is the depth of READs and atomics in both directions.
	defaultRdAtomic = 16
	defaultHopLimit = 64
)

// maxShards is the number of slots of an address: each shard takes one.
const maxShards = 64

// retryShardNs is how long to wait before retrying a shard that could not be opened, in
// nanoseconds. The slot of a device that has just closed stays unused for as long.
const retryShardNs = 2e9

// maxDefaultShards bounds the default of Config.Shards. See docs/design.md.
const maxDefaultShards = 8

// reservedIDs is the first ID of the work requests that roce.Conn posts by itself.
const reservedIDs = 1 << 62
