// Package access reaches beneath the objects of packages verbs and rdmacm, for the packages that
// are built on them: rdmacm, roce and rsocket. Each object has a method Core, which
// internal/core opens.
package access

import (
	"context"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/shard"
)

// Device is what is beneath a *verbs.Device, for the functions below.
type Device interface {
	Shard() *shard.Shard
	Wait(ctx context.Context, notify <-chan struct{}, tries int) error
	NextVector() int
	Own(error) error
	Keep(key any, make func() any) any
	End(reason error)
}

// Shard returns the first of the shards that run a device; nil for a zero one. It has the
// communication manager.
func Shard[D Device](d interface{ Core() core.Of[D] }) *shard.Shard { return core.Open(d).Shard() }

// Wait is Shard.Wait for what any shard of a device may bring.
func Wait[D Device](d interface{ Core() core.Of[D] }, ctx context.Context, notify <-chan struct{}, tries int) error {
	return core.Open(d).Wait(ctx, notify, tries)
}

// NextVector returns the completion vector for the next connection of a device.
func NextVector[D Device](d interface{ Core() core.Of[D] }) int { return core.Open(d).NextVector() }

// Own turns an error of the packages below a device into one of package verbs.
func Own[D Device](d interface{ Core() core.Of[D] }, err error) error { return core.Open(d).Own(err) }

// EndDevice closes a device for a reason that every call that waits returns.
func EndDevice[D Device](d interface{ Core() core.Of[D] }, reason error) { core.Open(d).End(reason) }

// PerDevice is what a package above verbs keeps on each device: its connections, what lingers, and
// the like. It lives as long as the device. The zero value is empty; it must not be copied.
type PerDevice[T any] struct {
	_ byte // so that no two have the same address
}

// KeptOn returns what is kept on a device. The first call for a device makes it, by make.
func KeptOn[D Device, T any](d interface{ Core() core.Of[D] }, p *PerDevice[T], make func() *T) *T {
	return core.Open(d).Keep(p, func() any { return make() }).(*T)
}

// Waiter is how a goroutine waits for completions and for something else at the same time.
type Waiter[WC any] interface {
	// Shard returns the shard of the queue.
	Shard() *shard.Shard
	// Signal is set when there are completions while somebody is between Enter and
	// Leave.
	Signal() *shard.Signal
	// Enter asks for the signal. Completions that came before make none.
	Enter()
	Leave()
	// Len returns how many completions there are.
	Len() int
	// Take moves completions that are there into wcs, and returns how many.
	Take(wcs []WC) int
	// Look is CQ.Poll of a caller that is going to wait if there is nothing: what was posted may
	// leave later, with what others post.
	Look(wcs []WC) (int, error)
}

// Waiting returns the waiting side of a completion queue. WC is verbs.WC.
func Waiting[T Waiter[WC], WC any](q interface{ Core() core.Of[T] }) Waiter[WC] {
	return core.Open(q)
}
