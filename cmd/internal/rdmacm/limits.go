package rdmacm

import "time"

// Bounds of the options.
const (
	maxConnections = 1 << 16
	maxMessages    = 1 << 14
	maxMessageSize = 1 << 30 // bytes
)

const (
	// lingerTime is how long a tool that has hung up waits for the peer's
	// answer before it closes the device, which ends all repetition.
	lingerTime = 5 * time.Second
	// drainTime is how long it waits for requests that the other side has not
	// acknowledged yet, when that is all there is left to do.
	drainTime = time.Second
)
