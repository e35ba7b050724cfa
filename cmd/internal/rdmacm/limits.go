package rdmacm

import "time"

// Bounds of the options.
const (
	maxConnections = 1 << 16
	maxMessages    = 1 << 14
	maxMessageSize = 1 << 30 // bytes
)

// lingerTime is how long a tool that has hung up waits for the peer's answer
// before it closes the device, which ends all repetition.
const lingerTime = 5 * time.Second

// How often a request of cmtime is sent, and how long it waits for an answer. The
// default gives up after 4 s, which is too soon for the last of a thousand requests that a
// slow peer answers one after the other. (Linux sends 16 times, every 4.3 s.)
const (
	crowdTries    = 16
	crowdInterval = 2 * time.Second
)
