package roce

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// Sizes of the shell.
const (
	// rxBatch is how many packets are handled under one hold of the lock.
	rxBatch = 128
	// ackGather is how many packets are handled at most before they are
	// acknowledged while more are at hand: a quarter of the window of a peer that
	// sends full packets.
	ackGather = 32
	// txBatch is how many packets are made and given to the link at a time: two
	// datagrams of the most segments that the kernel takes.
	txBatch = 256
	// joinMessages and joinBytes are how many messages, posted one by one, and how
	// much payload are sent at once, without waiting for more: half of what
	// programs commonly keep under way, and a datagram of large packets.
	joinMessages = 32
	joinBytes    = 60 << 10
	// maxUnread is how many packets may wait in a link that does not know itself:
	// as many small ones as there is room for in a socket buffer of 32 MiB.
	maxUnread = 1 << 16
	// maxAsyncEvents bounds the asynchronous events that wait for the
	// application; later ones are dropped and counted.
	maxAsyncEvents = 4096
	// pollYield is how many polls without result a goroutine makes before it lets
	// others run. One takes about 1 us; letting others run, if there are none, as long.
	pollYield = 16
	// sharedNs is how long it takes to give way to other threads from which it is
	// plain that there were any, and hoggedNs from which they do not wait for
	// packets. hogPauseNs is for how long nothing is given to those.
	sharedNs   = 3_000
	hoggedNs   = 500_000
	hogPauseNs = 50_000_000
	// holdNs is how long a polling device keeps an acknowledgement back at most, twice
	// that if another was kept back before, for an application that neither sends nor
	// polls. Timeouts of peers are longer: 67 ms by default.
	holdNs = 4 * time.Millisecond
	// maxHoldSkip bounds how many batches of packets are acknowledged at once after
	// acknowledgements were kept back in vain.
	maxHoldSkip = 255
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
