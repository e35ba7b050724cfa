package slots

import "time"

const (
	// Bits is how many bits of a queue pair number are the slot. More bits would leave fewer random
	// ones: now 18 are left, and initial PSNs and keys add 24 and 32. Every device holds all
	// descriptors, 3 a slot.
	Bits = 6
	// Count is the number of slots of an address.
	Count = 1 << Bits

	// FirstSpare is the first slot that a device may lease in addition to its own, so that many
	// devices with many CPUs each do not keep others out.
	FirstSpare = Count / 2

	// restNs is how long the numbers of a slot stay unused after its device has gone, in
	// nanoseconds. Peers that do not know yet keep sending for that long: the communication
	// manager's time in TIMEWAIT is 1 s. After that, 18 random bits, the PSN and the peer's address
	// tell a late packet from one for the new device.
	restNs = int64(2 * time.Second)
	// restRetry is the interval at which Open checks whether a slot has rested.
	restRetry = 20 * time.Millisecond
	// contendTime is how long devices that start at once may block each other, and contendRetry the
	// interval between their tries.
	contendTime  = 200 * time.Millisecond
	contendRetry = 2 * time.Millisecond

	// beginTime is how long the first device may take to make the sockets.
	beginTime = time.Second
	// answerTime is how long a process that connects may take to accept the answer.
	answerTime = time.Second
	// filePrefix begins the names of Unix sockets in a directory; the number is as in
	// [Address.name].
	filePrefix = "goroce-slots-2-"
	// maxSweep bounds how many files sweep examines.
	maxSweep = 256
	// maxHolders bounds how many processes of an address are examined.
	maxHolders = Count
	// meetPause is the wait between two tries.
	meetPause = time.Millisecond
	// lookShare is how much longer than a look the pause after it is, up to maxPause.
	lookShare = 10
	maxPause  = 5 * time.Second
	// exhaustedPause is the wait when a process has no descriptors left to accept with.
	exhaustedPause = 10 * time.Millisecond
	// backlog is how many processes may wait to connect.
	backlog = 128

	// maxDrain bounds how many datagrams drain takes out of a socket to which nothing is added.
	maxDrain = 1 << 17
	// maxPending is how many errors in a row end that.
	maxPending = 16
)

// meetTime is how long Open waits for processes that have the address but get no CPU, and stillTime
// how long when all of them stand still. It looks for another way after glance, and then at growing
// intervals up to longGlance. They are variables for tests.
var (
	meetTime   = 30 * time.Second
	stillTime  = time.Second
	glance     = 100 * time.Millisecond
	longGlance = 500 * time.Millisecond
)

// An offer holds the memory file; two sockets that may listen, one with an abstract name and one in
// a directory; the group with the socket for requests; and the two ends of an inbox for each slot.
const (
	memoryAt   = 0
	listenerAt = 1
	fileAt     = 2
	groupAt    = 3
	inboxAt    = groupAt + Count + 1
	numFDs     = inboxAt + 2*Count // at most 253, the most that the kernel passes in a message
	// needFDs is how many descriptors a device takes at an address, with those of its link.
	needFDs = numFDs + 12
)

// The offsets in the memory file. Locks are at offsets as well, whether there is data or not.
const (
	wordBytes  = 8                 // of each slot: see lease.go; slot k is locked at offset k
	numbersAt  = Count * wordBytes // see memory.go
	askedAt    = 1 << 12           // see asked.go
	askedBits  = 12
	keyAt      = askedAt - 8
	askedBytes = 8
	fileBytes  = askedAt + askedBytes<<askedBits
	// memoryName is the kernel's name for the file, as /proc shows it.
	memoryName = "goroce-slots"
	// servingAt is the offset at which each device that takes requests locks a byte.
	servingAt = Count
	// serviceAt is where the locks of services begin, and serviceSpan how many offsets each has:
	// the length of the lock says which slot has announced the service.
	serviceAt   = 1 << 12
	serviceSpan = 2 * Count
)
