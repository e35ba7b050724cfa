package verbs

import (
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/transport"
)

// Config is the configuration of a Device.
type Config struct {
	// Addrs is the GID table: the local IPv4 and IPv6 addresses to use. A link-local address needs
	// its zone if several interfaces have it. Empty means [DefaultAddrs]; with a Link, the link's
	// own addresses.
	Addrs []netip.Addr

	// Link carries the packets. The device owns it and closes it. If it is nil, the device opens a
	// udp link on Addrs.
	Link link.Link

	// UDP has the options of the udp link that is opened when Link is nil.
	UDP udp.Options

	// WrapLink, if set, returns a link to use in place of the given one. It can install the
	// middlewares of roce/link/trace and roce/link/fault.
	WrapLink func(link.Link) (link.Link, error)

	// Polling hints that the application will poll. From its first poll on, its polls do the work,
	// and calls that wait poll too. See the package comment. It is ignored on a simulated link.
	Polling bool

	// Spin is how long the device looks for packets after traffic before it sleeps. 0 means 20
	// looks (20 us on most machines): up to 200 while packets come soon after that, and none while
	// that has proved better. Negative means no looks, which takes less CPU and delays answers; a
	// second is the most. It is ignored on a simulated link.
	Spin time.Duration

	// Shards is how many completion vectors the device has ([CQOptions]). Each is a shard with its
	// own lock and goroutine, so that as many CPUs can work for the device. 0 is half of
	// GOMAXPROCS, at most 8 and at least 1, and 1 on a simulated link. 64 is the most.
	//
	// A shard is opened when the first completion queue asks for its vector. It takes one of the 64
	// slots of the device's addresses; 32 of these are reserved for the first shards of other
	// devices. If none is free, the first shard serves the queue, and later queues try again. Links
	// that cannot be opened twice at an address have one shard: xdp, a middleware (WrapLink), and a
	// udp or packet link whose addresses cannot be shared here.
	Shards int

	alone bool // for tests, with Polling: the device receives only when polled

	// MTU is the active MTU of the port; 0, and anything larger than fits the interfaces of the
	// addresses, is the largest that fits.
	MTU ib.MTU

	// Rand is the source of keys, QP numbers and initial PSNs; nil is crypto/rand.Reader. Keys are
	// a peer's only credential: use another source only to make a simulation repeatable. The device
	// reads from one goroutine at a time; a source that two devices share must allow concurrent
	// use.
	Rand io.Reader

	// Logger, if set, records when the device is opened and closed, when its port goes up or down
	// or changes its MTU, and when the link breaks. Packets and work requests are not logged.
	Logger *slog.Logger

	// Tracer, if set, receives the protocol events of the engines, one at a time, with the lock of
	// a shard held.
	Tracer transport.Tracer

	// Tuning overrides defaults of the protocol and selects congestion control (Tuning.Congestion;
	// none by default).
	Tuning transport.Tuning

	// MemLimits bounds registered memory; zero values mean the defaults of package mem.
	MemLimits mem.Limits
}
