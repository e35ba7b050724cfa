package nexthop

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// Status is the status of a hop's resolution.
type Status uint8

// The statuses.
const (
	Pending Status = iota // not known yet
	Ready
	Failed  // no route, the neighbour does not answer, the interface is down
	Evicted // the table has dropped this hop: get another
)

// State is what is known of a hop. It never changes.
type State struct {
	Status   Status
	Index    int // of the interface to send on
	Src, Dst rtnl.MAC
	MTU      int // longest IP packet in bytes
	GSOMax   int // longest segmentation offload packet of the interface in bytes; 0 unknown
	Err      error

	stale bool // the neighbour should be confirmed when it is used
}

// ErrNeighbour is the Err of a hop whose neighbour does not answer.
var ErrNeighbour = errors.New("the neighbour does not answer (ARP, NDP)")

// ErrDown is the Err of a hop whose interface is down.
var ErrDown = errors.New("the interface is down")

var statePending, stateEvicted = &State{}, &State{Status: Evicted}

type key struct {
	dst, src netip.Addr
}

// Hop is the path from a local address to a destination.
type Hop struct {
	t     *Table
	key   key
	state atomic.Pointer[State]
	used  atomic.Bool  // since the last check
	tried atomic.Int64 // when a resolution was last requested, Unix nanoseconds

	// Under Table.mu.
	neigh  rtnl.NeighbourKey // the entry it depends on; Addr invalid if none
	queued bool
	probe  bool    // ask the kernel to confirm
	epoch  uint64  // counts events that may have changed the state
	narrow *narrow // nil if no router has reported anything
}

// State returns the current state. The pointer changes if and only if the state does.
func (h *Hop) State() *State { return h.state.Load() }

// Use must be called when something is sent: it keeps the hop from being dropped, confirms stale
// neighbours and retries failed ones, at most every retryAfter.
func (h *Hop) Use(s *State) {
	if !h.used.Load() {
		h.used.Store(true)
	}
	if s.Status == Ready && !s.stale || s.Status == Evicted {
		return
	}
	now := time.Now().UnixNano()
	last := h.tried.Load()
	if now-last < int64(retryAfter) || !h.tried.CompareAndSwap(last, now) {
		return
	}
	h.t.resolve(h, true)
}
