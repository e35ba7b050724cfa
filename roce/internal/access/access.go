// Package access reaches beneath the objects of package verbs, for the packages that are
// built on it: rdmacm, roce and rsocket. What they need is no business of other programs,
// and so is not exported there.
//
// The arguments of type any are of the type that the comment names: this package is below those
// that have the types. Packages verbs and rdmacm set the functions when they are initialized.
package access

import (
	"context"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

var (
	// Shard returns the first of the shards that run a *verbs.Device; nil for a zero one. It has
	// the communication manager.
	Shard func(device any) *shard.Shard

	// ShardOf returns the shard that a *verbs.QP is on. Its lock comes after that of the first one.
	ShardOf func(qp any) *shard.Shard

	// Wait is Shard.Wait for what any shard of a *verbs.Device may bring.
	Wait func(device any, ctx context.Context, notify <-chan struct{}, tries int) error

	// NextVector returns the completion vector for the next connection of a *verbs.Device.
	NextVector func(device any) int

	// QP returns the engine's half of a *verbs.QP.
	QP func(qp any) *transport.QP

	// ClaimQP makes the caller the one who moves a *verbs.QP through its states.
	// established is called with the lock of the first shard held, at or after the first packet of the
	// peer. It reports false if somebody has the queue pair already. The lock of its shard is held.
	// unanswered is called in the same way when the peer does not answer.
	ClaimQP func(qp any, established, unanswered func()) bool

	// ReleaseQP ends ClaimQP. The lock of the queue pair's shard is held.
	ReleaseQP func(qp any)

	// ConnectQP takes a *verbs.QP from INIT to RTS, towards a *verbs.RemoteInfo, with the
	// attributes and the rights of a *verbs.ConnAttr. The lock of its shard is held, and now is
	// that shard's time.
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
	// Shard returns the shard of the queue.
	Shard() *shard.Shard
	// Signal is set when there are completions while somebody is between Enter and
	// Leave.
	Signal() shard.Signal
	// Enter asks for the signal. Completions that came before make none.
	Enter()
	Leave()
	// Len returns how many completions there are.
	Len() int
	// Take moves completions that are there into a *[]verbs.WC, and returns how many.
	Take(wcs any) int
	// Look is CQ.Poll of a caller that is going to wait if there is nothing: what was posted may leave later,
	// with what others post.
	Look(wcs any) (int, error)
}

// Channels is how a goroutine waits for events and for something else.
type Channels interface {
	// Signal is set when there are events.
	Signal() shard.Signal
	// Also sets another signal with it.
	Also(shard.Signal)
}
