package verbs

import (
	"github.com/goroce/goroce/mem"
)

// PD is a protection domain (ibv_pd): regions, windows, queue pairs, shared receive queues and
// address handles work together only within one.
type PD struct {
	d *Device
	t *mem.PD
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	t, err := d.s.Table().AllocPD()
	if err != nil {
		return nil, own(err)
	}
	return &PD{d, t}, nil
}

// Close ends the domain (ibv_dealloc_pd). It fails with ErrBusy while anything made in it is left.
func (pd *PD) Close() error {
	return pd.Device().end("PD", func() error { return pd.t.Dealloc() })
}

// Device returns the device of the domain.
func (pd *PD) Device() *Device {
	if pd == nil {
		return nil
	}
	return pd.d
}
