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
