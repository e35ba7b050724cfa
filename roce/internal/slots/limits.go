package slots

import "time"

const (
	// Bits is how many bits of a queue pair number are its slot. More of them would leave less
	// that is random to a number: 18 bits are left, and initial PSNs and keys add 24 and 32.
	// Every device holds all descriptors, of which there are 3 a slot.
	Bits = 6
	// Count is the number of slots of an address.
	Count = 1 << Bits

	// FirstSpare is the first slot that a device may have in addition to one that it has: many
	// devices with many CPUs each are not to keep others out.
	FirstSpare = Count / 2

	// RestNs is how long the numbers of a slot are not used after the device has gone, in
	// nanoseconds. Peers that do not know yet send on for that long: the communication manager's
	// time in TIMEWAIT is 1 s. After that 18 random bits, PSN and the peer's address tell a late
	// packet from one for the new device.
	RestNs = int64(2 * time.Second)
	// restRetry is how often it is looked whether a slot has rested.
	restRetry = 20 * time.Millisecond
	// contendTime is how long devices that begin at once may be in each other's way, and
	// contendRetry how often they look again.
	contendTime  = 200 * time.Millisecond
	contendRetry = 2 * time.Millisecond

	// beginTime is how long a device may take that makes the sockets.
	beginTime = time.Second
	// answerTime is how long one that has asked may take to take the answer.
	answerTime = time.Second
	// filePrefix is how the names of Unix sockets in a directory begin; the number is as in
	// [Address.name].
	filePrefix = "goroce-slots-2-"
	// maxSweep bounds how many files are looked at whether they can go.
	maxSweep = 256
	// maxHolders bounds how many processes of an address are looked at.
	maxHolders = Count
	// meetPause is the wait between two tries.
	meetPause = time.Millisecond
	// exhaustedPause is the wait when a process has no descriptors left to accept with.
	exhaustedPause = 10 * time.Millisecond
	// backlog is how many processes may be in the queue to connect.
	backlog = 128

	// maxDrain bounds how many datagrams are taken out of a socket that nobody
	// adds to.
	maxDrain = 1 << 17
)

// meetTime is how long Open waits for processes that have the address and get no CPU, and stillTime
// how long for such as all stand still. It looks whether there is another way after glance, and
// then less and less often. They are variables for tests.
var (
	meetTime   = 30 * time.Second
	stillTime  = time.Second
	glance     = 100 * time.Millisecond
	longGlance = 500 * time.Millisecond
)

// What an offer holds: the memory file, two sockets that may listen, with an abstract name and in a
// directory, the group with the socket for requests, and two ends of an inbox for each slot.
const (
	memoryAt   = 0
	listenerAt = 1
	fileAt     = 2
	groupAt    = 3
	inboxAt    = groupAt + Count + 1
	numFDs     = inboxAt + 2*Count // at most 253, which the kernel passes in a message
	// needFDs is what a device takes at an address, with those of its link.
	needFDs = numFDs + 12
)

// Offsets in the memory file. Locks are at offsets, too, whether there is data or not.
const (
	wordBytes  = 8                 // of each slot: see lease.go; slot k is locked at offset k
	numbersAt  = Count * wordBytes // see memory.go
	askedAt    = 1 << 12           // see asked.go
	askedBits  = 12
	keyAt      = askedAt - 8
	askedBytes = 8
	fileBytes  = askedAt + askedBytes<<askedBits
	// memoryName is what the kernel calls the file, for those who look.
	memoryName = "goroce-slots"
	// servingAt is where devices that take requests lock a byte each.
	servingAt = Count
	// serviceAt is where locks of services begin, and serviceSpan what each has: the length of
	// the lock says which slot has announced it.
	serviceAt   = 1 << 12
	serviceSpan = 2 * Count
)
