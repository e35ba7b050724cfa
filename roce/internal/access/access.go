// Package access reaches beneath the objects of packages verbs and rdmacm, for the packages that
// are built on them: rdmacm, roce and rsocket. What they need is no business of other programs, and
// so is not exported there.
//
// Each such object has a method Core. What that returns has no field and no method that another
// module could use: the functions of this package open it, and nobody else can import them. The
// types whose names end in Core say what is inside; packages verbs and rdmacm implement them.
package access

import (
	"context"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// Device is what is beneath a *verbs.Device.
type Device struct{ in DeviceCore }

// DeviceCore is the inside of a Device.
type DeviceCore interface {
	Shard() *shard.Shard
	Wait(ctx context.Context, notify <-chan struct{}, tries int) error
	NextVector() int
	Own(error) error
	Keep(key any, make func() any) any
	End(reason error)
}

// OfDevice makes the value that (*verbs.Device).Core returns.
func OfDevice(c DeviceCore) Device { return Device{c} }

type device interface{ Core() Device }

// Shard returns the first of the shards that run a device; nil for a zero one. It has the
// communication manager.
func Shard(d device) *shard.Shard { return d.Core().in.Shard() }

// Wait is Shard.Wait for what any shard of a device may bring.
func Wait(d device, ctx context.Context, notify <-chan struct{}, tries int) error {
	return d.Core().in.Wait(ctx, notify, tries)
}

// NextVector returns the completion vector for the next connection of a device.
func NextVector(d device) int { return d.Core().in.NextVector() }

// Own turns an error of the packages below a device into one of package verbs.
func Own(d device, err error) error { return d.Core().in.Own(err) }

// EndDevice closes a device for a reason that everybody who waits is told.
func EndDevice(d device, reason error) { d.Core().in.End(reason) }

// PerDevice is what a package above verbs keeps on each device: its connections, what lingers, and
// the like. It lives as long as the device. The zero value is empty; it must not be copied.
type PerDevice[T any] struct {
	_ byte // so that no two have the same address
}

// Of returns what is kept on a device. The first call for a device makes it, by make.
func (p *PerDevice[T]) Of(d device, make func() *T) *T {
	return d.Core().in.Keep(p, func() any { return make() }).(*T)
}

// QP is what is beneath a *verbs.QP. Attr is verbs.QPAttr.
type QP[Attr any] struct{ in QPCore[Attr] }

// QPCore is the inside of a QP.
type QPCore[Attr any] interface {
	Shard() *shard.Shard
	QP() *transport.QP
	Claim(established, unanswered func()) bool
	Release()
	Modify(now int64, a *Attr, mask transport.AttrMask) error
}

// OfQP makes the value that (*verbs.QP).Core returns.
func OfQP[Attr any](c QPCore[Attr]) QP[Attr] { return QP[Attr]{c} }

type qp[Attr any] interface{ Core() QP[Attr] }

// ShardOf returns the shard that a queue pair is on. Its lock comes after that of the first one.
func ShardOf[Attr any](q qp[Attr]) *shard.Shard { return q.Core().in.Shard() }

// EngineQP returns the engine's half of a queue pair.
func EngineQP[Attr any](q qp[Attr]) *transport.QP { return q.Core().in.QP() }

// ClaimQP makes the caller the one who moves a queue pair through its states. established is called
// with the lock of the first shard held, at or after the first packet of the peer, and unanswered
// in the same way when the peer does not answer. It reports false if somebody has the queue pair
// already. The lock of its shard is held.
func ClaimQP[Attr any](q qp[Attr], established, unanswered func()) bool {
	return q.Core().in.Claim(established, unanswered)
}

// ReleaseQP ends ClaimQP. The lock of the queue pair's shard is held.
func ReleaseQP[Attr any](q qp[Attr]) { q.Core().in.Release() }

// ModifyQP is QP.Modify with the lock of the queue pair's shard held; now is that shard's time.
func ModifyQP[Attr any](q qp[Attr], now int64, a *Attr, mask transport.AttrMask) error {
	return q.Core().in.Modify(now, a, mask)
}

// CQ is what is beneath a *verbs.CQ. WC is verbs.WC.
type CQ[WC any] struct{ in Waiter[WC] }

// OfCQ makes the value that (*verbs.CQ).Core returns.
func OfCQ[WC any](w Waiter[WC]) CQ[WC] { return CQ[WC]{w} }

// Waiting returns the waiting side of a completion queue.
func Waiting[WC any](q interface{ Core() CQ[WC] }) Waiter[WC] { return q.Core().in }

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

// PD is what is beneath a *verbs.PD.
type PD struct{ clear func() error }

// OfPD makes the value that (*verbs.PD).Core returns.
func OfPD(clear func() error) PD { return PD{clear} }

// ClearPD ends a protection domain, and the memory that is registered in it.
func ClearPD(pd interface{ Core() PD }) error { return pd.Core().clear() }

// Channel is what is beneath a *rdmacm.EventChannel.
type Channel struct{ in Channels }

// OfChannel makes the value that (*rdmacm.EventChannel).Core returns.
func OfChannel(c Channels) Channel { return Channel{c} }

// Events returns the waiting side of an event channel.
func Events(ch interface{ Core() Channel }) Channels { return ch.Core().in }

// Channels is how a goroutine waits for events and for something else.
type Channels interface {
	// Signal is set when there are events.
	Signal() *shard.Signal
	// Also sets another signal with it.
	Also(*shard.Signal)
	// Gate has a connection request taken only after take has allowed it. give undoes that if there
	// was none. When take would allow one again, set the signal. It is called before the channel is
	// used.
	Gate(take func() bool, give func())
}
