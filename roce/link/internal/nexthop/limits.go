package nexthop

import "time"

const (
	// maxHops bounds the table: peers can make a device answer to many addresses.
	maxHops = 1 << 14

	// retryAfter is how long after a failure another resolution is tried, if there is something to
	// send. The kernel would try with every packet; a QP gives up after half a second by default,
	// which should include several tries.
	retryAfter = 100 * time.Millisecond

	// narrowFor is how long a router's report counts, as in the kernel
	// (net.ipv4.route.mtu_expires).
	narrowFor = 10 * time.Minute
)
