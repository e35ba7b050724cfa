package mem

import (
	"fmt"
	"math"
)

// The limits of one device. The values are those that rxe reports (its max_mr and max_mw are half
// of the 2^20 that its key index allows) or larger.
const (
	// DefaultMaxPD is the number of protection domains of a device.
	DefaultMaxPD = 1 << 20
	// DefaultMaxRegions is the number of registered regions of a device.
	DefaultMaxRegions = 1 << 20
	// DefaultMaxWindows is the number of memory windows of a device.
	DefaultMaxWindows = 1 << 20
	// DefaultMaxRegionBytes bounds one region: 2^46 bytes, 64 TiB, half of what
	// a process can map on amd64.
	DefaultMaxRegionBytes uint64 = 1 << 46
	// DefaultQuarantine is how many freed key indices are kept from being drawn again. Each takes
	// up to 68 bytes of the table of keys, so a device that keeps registering and deregistering
	// reaches half a MiB and stays there.
	DefaultQuarantine = 1 << 13

	// MaxSGE is the number of elements of a scatter/gather list.
	MaxSGE = 32
	// MaxAccessBytes bounds one remote access: the longest message, 2^31 bytes
	// (IBTA 9.7.7.1.4; rxe refuses a longer RETH).
	MaxAccessBytes uint32 = 1 << 31

	// AtomicBytes is the operand size of the atomic operations, and the alignment that they need.
	AtomicBytes = 8

	// maxKeys bounds all live and quarantined indices together to half of the 2^24, so that drawing
	// a free one takes two tries on average even at the limit, and a guessed index still needs the
	// right low byte.
	maxKeys = 1 << 23
	// maxPDs bounds the number of protection domains, to what rxe could number.
	maxPDs = 1 << 24
	// maxDraws bounds the tries to draw a free index. With a sound random source and maxKeys,
	// failing this often has a probability of 2^-256.
	maxDraws = 256
	// minSlots is the size of the key table of a device without keys.
	minSlots = 64
)

// Limits bounds what a Table will hold. A field of 0 means the default.
type Limits struct {
	PDs         int    // protection domains
	Regions     int    // memory regions
	Windows     int    // memory windows
	RegionBytes uint64 // length of one region, bytes
	Quarantine  int    // freed key indices that may not be drawn again; negative for none
}

// Check returns an error for a limit that is negative or beyond what the key space holds.
func (l Limits) Check() error {
	for _, f := range [...]struct {
		name        string
		n, low, top int
	}{
		{"PDs", l.PDs, 0, maxPDs}, {"Regions", l.Regions, 0, maxKeys / 4}, {"Windows", l.Windows, 0, maxKeys / 4},
		{"Quarantine", l.Quarantine, math.MinInt, maxKeys / 2},
	} {
		if f.n < f.low || f.n > f.top {
			return opErr("limits", f.name, fmt.Sprintf("%d, at least 0 and at most %d", f.n, f.top), ErrInvalid)
		}
	}
	return nil
}

// withDefaults fills in defaults and reduces limits to what the key space holds.
func (l Limits) withDefaults() Limits {
	l.PDs = orDefault(l.PDs, DefaultMaxPD)
	l.Regions = min(orDefault(l.Regions, DefaultMaxRegions), maxKeys/4)
	l.Windows = min(orDefault(l.Windows, DefaultMaxWindows), maxKeys/4)
	l.Quarantine = min(orDefault(l.Quarantine, DefaultQuarantine), maxKeys/2)
	if l.RegionBytes == 0 {
		l.RegionBytes = DefaultMaxRegionBytes
	}
	return l
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return max(n, 0)
}
