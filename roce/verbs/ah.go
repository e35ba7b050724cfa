package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// AH is an address handle (ibv_ah): the way to the peer of a UD send, for SendWR.AH.
type AH struct {
	d *Device
	t *transport.AH
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(av AddressVector) (*AH, error) {
	d := pd.Device()
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	t, err := d.s.Engine().CreateAH(pd.t, transport.AddressVector(av))
	if err != nil {
		return nil, own(err)
	}
	return &AH{d, t}, nil
}

// CreateAHTo makes an address handle to a GID from the local address that fits it.
func (pd *PD) CreateAHTo(gid ib.GID) (*AH, error) {
	i, err := pd.Device().GIDIndexFor(gid)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(AddressVector{DGID: gid, SGIDIndex: i, HopLimit: defaultHopLimit})
}

// engine returns the engine's half of the handle; nil of nil.
func (a *AH) engine() *transport.AH {
	if a == nil {
		return nil
	}
	return a.t
}

// Close ends the handle (ibv_destroy_ah). Sends that were posted with it still go out.
func (a *AH) Close() error {
	return a.d.end("address handle", func() error { return a.t.Destroy() })
}
