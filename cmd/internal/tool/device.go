package tool

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/udp"
)

// OpenFunc opens a device; release ends its use.
type OpenFunc func(cfg roce.Config) (dev *roce.Device, release func() error, err error)

// OpenDevice is the OpenFunc of the real program.
func OpenDevice(cfg roce.Config) (*roce.Device, func() error, error) {
	dev, err := roce.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return dev, dev.Close, nil
}

// Open opens the device at p. If the address was chosen by default and is
// taken, the place's spares are tried: two tools on one machine without
// network then find an address each. The place returned is where it is.
func (d *DeviceOptions) Open(env *Env, p Place) (*roce.Device, func() error, Place, error) {
	open := env.Open
	if open == nil {
		open = OpenDevice
	}
	cfg := roce.Config{
		Addrs:   p.Addrs,
		Polling: d.Polling,
		UDP:     udp.Options{DisableGSO: d.NoGSO, DisableGRO: d.NoGRO},
	}
	dev, release, err := open(cfg)
	for _, spare := range p.Spares {
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		cfg.Addrs = []netip.Addr{spare}
		p.Addrs = cfg.Addrs
		dev, release, err = open(cfg)
	}
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; another address of this machine can be given with --addr, for instance 127.0.0.2", err)
		}
		return nil, nil, p, err
	}
	return dev, release, p, nil
}
