package roce

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// Sizes of the shell.
const (
	// rxBatch is how many packets are handled under one hold of the lock.
	rxBatch = 128
	// txBatch is how many packets are made and given to the link at a time: two
	// datagrams of the most segments that the kernel takes.
	txBatch = 256
	// maxAsyncEvents bounds the asynchronous events that wait for the
	// application; later ones are dropped and counted.
	maxAsyncEvents = 4096
	// pollYield is how many polls without result a goroutine makes before it lets
	// others run.
	pollYield = 16
	// defaultSpinNs is how long the goroutine of a device receives without
	// blocking after traffic. A wake-up costs about 5 us more than a receive that finds its packet,
	// on both sides.
	defaultSpinNs = 30_000
	// preemptedNs is the time for one turn of the spin, which takes about 1 us, by
	// which the goroutine knows that it was not alone on its processor, and
	// spinPauseNs how long it then blocks without spinning.
	preemptedNs = 50_000
	spinPauseNs = 10_000_000
)

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

// maxObjects is what Device.Attr reports for kinds of objects that nothing
// but memory bounds.
const maxObjects = 1 << 20

// maxRdAtomic is the most READs and atomics outstanding on a connection.
const maxRdAtomic = transport.MaxRdAtomic
