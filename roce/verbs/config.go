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

// Config is what a Device is opened with.
type Config struct {
	// Addrs is the GID table: the local IPv4 and IPv6 addresses to speak from; a
	// link-local one with its zone, if several interfaces have it.
	// Empty means [DefaultAddrs]; with a Link, its own addresses.
	Addrs []netip.Addr

	// Link carries the packets. The device owns it and closes it. Nil opens a
	// udp link on Addrs.
	Link link.Link

	// UDP are the options of the udp link that is opened when Link is nil.
	UDP udp.Options

	// WrapLink, if set, is given the link and returns the one to use: a place for
	// the middlewares of roce/link/trace and roce/link/fault.
	WrapLink func(link.Link) (link.Link, error)

	// Polling is a hint that the application will poll: from its first poll on it does
	// the work, and calls that wait poll, too. See the package comment. Ignored with a link that is
	// a simulation.
	Polling bool

	// Spin is how long the device goes on looking for packets after traffic, before it sleeps; 0 is
	// 20 looks (20 us on most machines), up to 200 where packets come soon after that, and none
	// where that has been better; negative is not at all: less CPU, later answers; a second is the
	// most. Ignored with a link that is a simulation.
	Spin time.Duration

	// Shards is how many completion vectors the device has ([CQOptions]): each is a shard, with a
	// lock and a goroutine of its own, so that as many CPUs can work for the device. 0 is half of
	// GOMAXPROCS, at most 8 and at least 1, and 1 on a simulated link. 64 is the most.
	//
	// A shard is opened when the first completion queue asks for its vector, and takes one of the
	// 64 slots of the device's addresses, of which 32 are left to the first shards of other
	// devices. If none is left the first shard serves the queue, and later ones try again. Links
	// that cannot be opened twice at an address have one shard: xdp, a middleware (WrapLink), a udp
	// or packet link whose addresses cannot be shared here.
	Shards int

	alone bool // for tests, with Polling: the device never receives by itself

	// MTU is the active MTU of the port; 0, and anything larger, is the largest
	// that fits the interfaces of the addresses.
	MTU ib.MTU

	// Rand is where keys, QP numbers and initial PSNs come from; nil is
	// crypto/rand.Reader. Keys are a peer's only credential: use another source
	// only to make a simulation repeatable. The device reads from it by one goroutine at a
	// time; two devices that share a source need one that may be used by several.
	Rand io.Reader

	// Logger, if set, is told when the device is opened and closed, when its port goes up or down
	// or changes its MTU, and when the link breaks. Nothing is logged for packets or work requests.
	Logger *slog.Logger

	// Tracer receives the protocol events of the engines, with the lock of a
	// shard held, one at a time; nil for none.
	Tracer transport.Tracer

	// Tuning overrides defaults of the protocol, and selects congestion control
	// (Tuning.Congestion; none by default).
	Tuning transport.Tuning

	// MemLimits bounds registered memory; zero means the defaults of package mem.
	MemLimits mem.Limits
}
