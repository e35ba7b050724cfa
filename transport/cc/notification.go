package cc

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// Scope says which CNPs share one minimum gap. NICs differ (L5 of Lumina, SIGCOMM 2023).
type Scope uint8

// The scopes.
const (
	ScopeQP            Scope = iota // each QP by itself
	ScopeDestinationIP              // all QPs towards one congested sender
	ScopeIPPair                     // all QPs between two addresses
	ScopePort                       // the whole port
)

// maxNotified bounds the table of recent CNPs. An entry is needed for one gap only, so the table is
// full only if more flows than this are marked within a gap. Further CNPs are then withheld.
const maxNotified = 4096

type notifyKey struct {
	qpn      ib.QPN
	src, dst netip.Addr
}

// NotificationPoint decides at the receiver whether a CE-marked packet draws a CNP: one per gap and
// scope.
type NotificationPoint struct {
	gapNs int64
	scope Scope
	sent  map[notifyKey]int64
	// scanAt is when the first entry of a full table expires. Earlier scans are useless, and a
	// flood must not cause them.
	scanAt int64
	// Withheld counts CNPs suppressed by a full table.
	Withheld uint64
}

// NewNotificationPoint returns a notification point. gapNs is 50 us in the DCQCN paper, 4 us on
// ConnectX.
func NewNotificationPoint(gapNs int64, scope Scope) *NotificationPoint {
	return &NotificationPoint{gapNs: gapNs, scope: scope, sent: make(map[notifyKey]int64)}
}

// Allow reports whether a CNP may be sent at now for a marked packet of local QP qpn from src to
// dst. If so, it remembers the CNP.
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

// forget drops expired entries and reports whether there were any.
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
