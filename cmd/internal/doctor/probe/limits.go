package probe

import "time"

const (
	// tokenTime is how long a token is good for, at least; at most twice that.
	tokenTime = time.Minute

	// welcomesPerSecond bounds what goes to addresses that have shown nothing yet.
	welcomesPerSecond = 1000

	// maxRuns is how many runs of packets the server remembers, of all clients.
	maxRuns = 64
	// maxSeq bounds the numbers of the packets of a run that is counted.
	maxSeq = 1 << 16

	// dscp is the traffic class of the packets that tell whether it is kept: AF31, as RoCE often
	// has.
	dscp = 26

	helloTries   = 6
	firstTimeout = 100 * time.Millisecond // of a hello, then twice that each time
	leastTimeout = 100 * time.Millisecond // of what follows, unless Config.Patience says otherwise
	rttFactor    = 6                      // and at least so many round trips
	tries        = 4                      // of each single question

	burstPackets  = 2000
	burstBytes    = 512 // of RoCE payload
	burstAtOnce   = 10  // packets a millisecond: 44 Mb/s
	burstInterval = time.Millisecond

	pings = 200

	// In the test of goodput: packets on their way, to begin with and at most; the latter depends
	// on the round trip.
	firstWindow = 16
	leastWindow = 64
	maxWindow   = 2048
	windowRate  = 10e9 / 8 // bytes a second that the path is believed to carry

	socketBuffer = 4 << 20
)
