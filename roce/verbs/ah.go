package verbs

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// AH is an address handle (ibv_ah): the path to the peer of a UD send, for SendWR.AH.
type AH struct {
	d  *Device
	pd *PD
	av transport.AddressVector
	// of has a handle for each shard's engine, by Index, because links cache on it what they know
	// of the path. The first is made at once, others when they are used. Each is guarded by the
	// lock of its shard.
	of   []*transport.AH
	gone atomic.Bool
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(av AddressVector) (*AH, error) {
	d := pd.Device()
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	a := &AH{d: d, pd: pd, av: transport.AddressVector(av), of: make([]*transport.AH, d.CompletionVectors())}
	if err := a.make(d.s); err != nil {
		return nil, own(err)
	}
	return a, nil
}

// CreateAHTo makes an address handle for a GID, with the local address that fits it.
func (pd *PD) CreateAHTo(gid ib.GID) (*AH, error) {
	i, err := pd.Device().GIDIndexFor(gid)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(AddressVector{DGID: gid, SGIDIndex: i, HopLimit: defaultHopLimit})
}

// make makes the handle for a shard's engine. The lock of the shard is held.
func (a *AH) make(s *shard.Shard) (err error) {
	a.of[s.Index()], err = s.Engine().CreateAH(a.pd.t, a.av)
	return err
}

// engine returns the handle for a shard's engine; nil of nil. The lock of the shard is held.
func (a *AH) engine(s *shard.Shard) *transport.AH {
	if a == nil || a.of == nil {
		return nil
	}
	i := s.Index()
	if a.of[i] == nil {
		if a.make(s) != nil {
			return new(transport.AH) // the domain is gone; the engine refuses a handle without a domain
		}
		if a.gone.Load() {
			_ = a.of[i].Destroy() // the engine refuses it too
		}
	}
	return a.of[i]
}

// Close ends the handle (ibv_destroy_ah). Sends that were posted with it still go out.
func (a *AH) Close() error {
	if a.d.unmade() {
		return nil
	}
	a.gone.Store(true)
	for _, s := range a.d.shards.all() {
		if err := endOn(s, "address handle", func() error {
			if t := a.of[s.Index()]; t != nil {
				return t.Destroy()
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
