package nexthop

import "time"

const (
	// maxHops bounds the table: peers can make a device answer to many addresses.
	maxHops = 1 << 14

	// retryAfter is how long after a failure another resolution is tried, if
	// somebody wants to send.
	retryAfter = time.Second
)
