package tool

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/stat"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

// OpenFunc opens a device; release ends its use.
type OpenFunc func(cfg verbs.Config) (dev *verbs.Device, release func() error, err error)

// OpenDevice is the OpenFunc of the real program.
func OpenDevice(cfg verbs.Config) (*verbs.Device, func() error, error) {
	dev, err := verbs.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return dev, dev.Close, nil
}

// congestion is what the options say about congestion control on an interface.
func (d *DeviceOptions) congestion(iface string) cc.Config {
	if d.CC == cc.None {
		return cc.Config{}
	}
	c := cc.Config{Algorithm: d.CC, LineRate: cc.Rate(d.CCRate) * cc.Gbps, CutOnNAK: d.CCOnNAK}
	if c.LineRate == 0 {
		c.LineRate = lineRate(iface)
	}
	return c
}

// lineRate asks the kernel for the speed of an interface; 0 if it does not know, as of loopback.
func lineRate(iface string) cc.Rate {
	b, err := os.ReadFile("/sys/class/net/" + filepath.Base(iface) + "/speed")
	if err != nil {
		return 0
	}
	mbps, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || mbps <= 0 {
		return 0 // -1 is unknown
	}
	return cc.Rate(mbps) * cc.Mbps
}

// openOn opens a device on the link that was asked for; the device closes it.
func (d *DeviceOptions) openOn(open OpenFunc, cfg verbs.Config) (*verbs.Device, func() error, error) {
	var l link.Link
	var err error
	switch d.Link {
	case "packet":
		if d.NoGRO {
			return nil, nil, errors.New(
				"--no-gro: the packet link takes frames as the interface has them: ethtool -K DEVICE gro off")
		}
		l, err = packet.Open(packet.Options{Addrs: cfg.Addrs, DisableGSO: d.NoGSO})
	case "xdp": // every packet travels by itself anyway
		l, err = xdp.Open(xdp.Options{Addrs: cfg.Addrs})
	default:
		return open(cfg)
	}
	if err != nil {
		return nil, nil, err
	}
	cfg.Link = l
	dev, release, err := open(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return dev, release, nil
}

// Open opens the device at p. If the address was chosen by default and is taken by something that
// does not share it, the place's spares are tried. The place returned is where it is.
func (d *DeviceOptions) Open(env *Env, p Place) (*verbs.Device, func() error, Place, error) {
	open := env.Open
	if open == nil {
		open = OpenDevice
	}
	cfg := verbs.Config{
		Addrs:   p.Addrs,
		Polling: d.Polling,
		UDP:     udp.Options{DisableGSO: d.NoGSO, DisableGRO: d.NoGRO},
	}
	cfg.Tuning.Congestion = d.congestion(p.Iface)
	open, err := d.traced(open, &cfg)
	if err != nil {
		return nil, nil, p, err
	}
	dev, release, err := d.openOn(open, cfg)
	for _, spare := range p.Spares {
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		cfg.Addrs = []netip.Addr{spare}
		p.Addrs = cfg.Addrs
		dev, release, err = d.openOn(open, cfg)
	}
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf(
				"%w; another address of this machine can be given with --addr, for instance 127.0.0.2", err)
		}
		return nil, nil, p, err
	}
	if d.Stat || os.Getenv(statEnv) != "" && os.Getenv(statEnv) != "0" {
		release = showing(env, dev, release)
	}
	return dev, release, p, nil
}

// statEnv in the environment is --stat for tools that are not started by hand.
const statEnv = "GOROCE_STAT"

// showing lets "roce stat" see a device until it is released.
func showing(env *Env, dev *verbs.Device, release func() error) func() error {
	srv, err := stat.Serve(dev)
	if err != nil {
		fmt.Fprintf(env.Stderr, "roce: \"roce stat\" will not see this: %v\n", err)
		return release
	}
	return func() error { return errors.Join(srv.Close(), release()) }
}
