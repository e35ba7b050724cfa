package lab

import "time"

// Addresses of the two segments. They live in a network namespace of the lab's own
// and can clash with nothing outside.
const (
	// Host4 and Host6 are this machine's addresses on the segment under test.
	Host4 = "10.77.0.1"
	host6 = "fd77::1"
	// HostDev is this machine's device on the segment under test.
	HostDev = "lab0"

	// net4 and Net6 begin the addresses of the segment under test (/24 and /64). Guests
	// have firstGuest and up as the last part, Hosts firstHost and up.
	net4 = "10.77.0."
	net6 = "fd77::"

	mgmtDev     = "mgmt0"
	mgmt4       = "10.78.0.1"
	mgmt4Prefix = "10.78.0."
	firstGuest  = 10  // the first guest's last address byte
	firstHost   = 100 // the first Host's
)

const (
	// mtu of the segment under test, in bytes of IP packet. rxe's largest path MTU of
	// 4096 needs 4176.
	mtu = 9000

	// MaxGuests is the number of guests that one Lab boots at most.
	MaxGuests = 8

	// MaxHosts is the number of Hosts of one Lab at most.
	MaxHosts = 32

	guestMemoryMB = 1024

	// Labels under which QEMU's and labd's parts meet.
	agentPort = 18400 // TCP port of verbsd, the verbs agent, in the guest
)

const (
	// bootTimeout covers power-on to labd's ready line and the guest's set-up: 5 to 10 s on an
	// idle machine; the rest is for a busy one.
	bootTimeout = 5 * time.Minute
	// bootTries is how often a guest is powered on that does not come up. No test has begun by
	// then.
	bootTries = 2
	// setupTimeout covers one command of this machine's network set-up.
	setupTimeout = 60 * time.Second
	// dialTimeout covers the connection of one command to labd.
	dialTimeout = time.Minute
	// killGrace is how long a process may take to go after SIGKILL.
	killGrace = 10 * time.Second
	// fetchTimeout covers one command of apt.
	fetchTimeout = 10 * time.Minute
	// aptTries is how often a command of apt is tried, and aptPause the time before the second
	// try; it doubles with each.
	aptTries = 4
	aptPause = 5 * time.Second
	// lockTimeout is how long to wait for another run that fills the same cache.
	lockTimeout = 15 * time.Minute
)
