// Package access reaches beneath the objects of package verbs, for the packages that are
// built on it: rdmacm, roce and rsocket. What they need is no business of other programs,
// and so is not exported there.
//
// The arguments of type any are of the type that the comment names: this package is below those
// that have the types. Packages verbs and rdmacm set the functions when they are initialized.
package access

import (
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

var (
	// Shard returns what runs a *verbs.Device; nil for a zero one.
	Shard func(device any) *shard.Shard

	// QP returns the engine's half of a *verbs.QP.
	QP func(qp any) *transport.QP

	// ClaimQP makes the caller the one who moves a *verbs.QP through its states.
	// established is called with the lock held at the first packet of the peer. It reports false
	// if somebody has the queue pair already. The lock is held.
	ClaimQP func(qp any, established func()) bool

	// ReleaseQP ends ClaimQP. The lock is held.
	ReleaseQP func(qp any)

	// ConnectQP takes a *verbs.QP from INIT to RTS, towards a *verbs.RemoteInfo, with the
	// attributes and the rights of a *verbs.ConnAttr. The lock is held.
	ConnectQP func(qp any, now int64, remote, attr any) error

	// CQ returns the waiting side of a *verbs.CQ.
	CQ func(cq any) Waiter

	// ClearPD ends a *verbs.PD, and the memory that is registered in it.
	ClearPD func(pd any) error

	// Own turns an error of the packages below into one of package verbs.
	Own func(error) error

	// Channel returns the waiting side of a *rdmacm.EventChannel.
	Channel func(ch any) Channels
)

// Waiter is how a goroutine waits for completions and for something else at the same time.
type Waiter interface {
	// Signal is set when there are completions while somebody is between Enter and
	// Leave.
	Signal() shard.Signal
	// Enter asks for the signal. Completions that came before make none.
	Enter()
	Leave()
	// Len returns how many completions there are.
	Len() int
}

// Channels is how a goroutine waits for events and for something else.
type Channels interface {
	// Signal is set when there are events.
	Signal() shard.Signal
	// Also sets another signal with it.
	Also(shard.Signal)
}
