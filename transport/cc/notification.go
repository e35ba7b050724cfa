package cc

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// Scope says which CNPs share one minimum gap (L5 of Lumina, SIGCOMM 2023:
// NICs differ).
type Scope uint8

// The scopes.
const (
	ScopeQP            Scope = iota // each QP on its own
	ScopeDestinationIP              // all QPs towards one congested sender
	ScopeIPPair                     // all QPs between two addresses
	ScopePort                       // the whole port
)

// maxNotified bounds the table of recent CNPs. An entry is only needed for
// one gap, so the table is full only if more flows than this are marked
// within one gap; further CNPs are then withheld.
const maxNotified = 4096

type notifyKey struct {
	qpn      ib.QPN
	src, dst netip.Addr
}

// NotificationPoint decides at the receiver whether a CE-marked packet is
// answered by a CNP: one for each gap and scope.
type NotificationPoint struct {
	gapNs int64
	scope Scope
	sent  map[notifyKey]int64
	// scanAt is when the first entry of a full table is over: before, there is
	// no use in looking for old ones, and a flood must not make us.
	scanAt int64
	// Withheld counts CNPs that the full table kept back.
	Withheld uint64
}

// NewNotificationPoint returns a notification point; gapNs is 50 us in the
// DCQCN paper, 4 us on ConnectX.
func NewNotificationPoint(gapNs int64, scope Scope) *NotificationPoint {
	return &NotificationPoint{gapNs: gapNs, scope: scope, sent: make(map[notifyKey]int64)}
}

// Allow reports whether a CNP may be sent at now for a marked packet of local
// QP qpn that came from src to dst, and if so remembers it.
func (n *NotificationPoint) Allow(now int64, qpn ib.QPN, src, dst netip.Addr) bool {
	var k notifyKey
	switch n.scope {
	case ScopeQP:
		k.qpn = qpn
	case ScopeDestinationIP:
		k.src = src
	case ScopeIPPair:
		k.src, k.dst = src, dst
	}
	if last, ok := n.sent[k]; ok {
		if now-last < n.gapNs {
			return false
		}
	} else if len(n.sent) >= maxNotified && !n.forget(now) {
		n.Withheld++
		return false
	}
	n.sent[k] = now
	return true
}

// forget drops the entries whose gap is over and reports whether there were
// any.
func (n *NotificationPoint) forget(now int64) bool {
	if now < n.scanAt {
		return false
	}
	before := len(n.sent)
	first := now
	for k, last := range n.sent {
		if now-last >= n.gapNs {
			delete(n.sent, k)
		} else {
			first = min(first, last)
		}
	}
	n.scanAt = first + n.gapNs
	return len(n.sent) < before
}
