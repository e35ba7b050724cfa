package tool

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/transport/cc"
)

// DeviceOptions are the options that choose and open the local device. Every tool has them.
type DeviceOptions struct {
	Dev     string // -d: address or name of an interface
	Addr    string // --addr: addresses, separated by commas
	Link    string // udp (also if empty), packet or xdp
	Polling bool
	Event   bool
	NoGSO   bool
	NoGRO   bool
	CC      cc.Algorithm
	CCRate  int // Gb/s; 0: that of the interface
	CCOnNAK bool
	Trace   string // file that every packet is written to
	Stat    bool   // "roce stat" sees it
}

// Options returns the table of these options.
func (d *DeviceOptions) Options() []getopt.Option {
	return []getopt.Option{
		{Short: 'd', Long: "ib-dev", Arg: "dev",
			Help: "local device: an IP address or the name of an interface", Set: getopt.String(&d.Dev)},
		{Long: "addr", Arg: "ip", Help: "local address; with commas between them, the GID table",
			Set: getopt.String(&d.Addr)},
		{Long: "link", Arg: "link",
			Help: "how packets travel: udp (default), packet (needs CAP_NET_RAW), xdp (needs CAP_NET_ADMIN, CAP_BPF, CAP_NET_RAW)", Set: d.setLink},
		{Long: "polling", Help: "the tool's own thread does the work: least latency, one CPU busy",
			Set: getopt.Bool(&d.Polling)},
		{Long: "event", Help: "a thread of the device's own does the work (default, but for latency tests without -e)",
			Set: getopt.Bool(&d.Event)},
		{Long: "no-gso", Help: "send every packet by itself", Set: getopt.Bool(&d.NoGSO)},
		{Long: "no-gro", Help: "receive every packet by itself", Set: getopt.Bool(&d.NoGRO)},
		{Long: "cc", Arg: "algorithm",
			Help: "congestion control: " + strings.Join(cc.Algorithms(), ", ") + " (default none)", Set: d.setCC},
		{Long: "cc-rate", Arg: "Gb/s", Help: "line rate for congestion control (default: that of the interface)",
			Set: getopt.Int(&d.CCRate, 1, 3200)},
		{Long: "trace", Arg: "file",
			Help: "write every packet to a pcapng file, or to a named pipe: see roce explain, roce dump",
			Set:  getopt.String(&d.Trace)},
		{Long: "cc-nak", Help: "congestion control takes a lost packet for congestion", Set: getopt.Bool(&d.CCOnNAK)},
		{Long: "stat", Help: "\"roce stat\" sees the device (also GOROCE_STAT=1 in the environment)",
			Set: getopt.Bool(&d.Stat)},
	}
}

func (d *DeviceOptions) setCC(s string) (err error) {
	d.CC, err = cc.ParseAlgorithm(s)
	return err
}

func (d *DeviceOptions) setLink(s string) error {
	switch s {
	case "udp", "packet", "xdp":
		d.Link = s
		return nil
	}
	return fmt.Errorf("%q is not a link: use udp, packet or xdp", s)
}

// Place is where the device shall be.
type Place struct {
	Addrs []netip.Addr // the GID table; at least one
	Iface string       // the interface of the first address
	// Spares are addresses to try if a default of the loopback interface is taken.
	Spares []netip.Addr
}

// loopbackSpares is how many addresses of 127/8 are tried after 127.0.0.1.
const loopbackSpares = 8

func (p Place) withSpares() Place {
	if a := p.Addrs[0]; a.Is4() && a.IsLoopback() {
		for range loopbackSpares {
			a = a.Next()
			p.Spares = append(p.Spares, a)
		}
	}
	return p
}

// Name is the device's name in the tools' output.
func (p Place) Name() string {
	if p.Iface == "" {
		return "roce0"
	}
	return "roce_" + p.Iface
}

// iface is what Choose needs to know of a network interface.
type iface struct {
	name  string
	addrs []netip.Addr
}

// Choose decides on the local address: what the options say; else, for a
// client, the address from which the kernel reaches the server; else the first
// address that other machines can reach; else the loopback address.
func (d *DeviceOptions) Choose(host string, ipv6 bool) (Place, error) {
	ifaces, err := interfaces()
	if err != nil {
		return Place{}, fmt.Errorf("list network interfaces: %w", err)
	}
	return d.choose(ifaces, routeTo(host, ipv6), ipv6)
}

func (d *DeviceOptions) choose(ifaces []iface, route netip.Addr, ipv6 bool) (Place, error) {
	switch {
	case d.Addr != "":
		return placeOf(ifaces, strings.Split(d.Addr, ","))
	case d.Dev != "":
		name := strings.TrimPrefix(d.Dev, "roce_")
		for _, f := range ifaces {
			if f.name != name && f.name != d.Dev {
				continue
			}
			if a, ok := pick(f.addrs, ipv6, true); ok {
				return Place{Addrs: []netip.Addr{a}, Iface: f.name}, nil
			}
			return Place{}, fmt.Errorf("interface %s has no %s address: give it one, or name an address with --addr",
				f.name, family(ipv6))
		}
		if _, err := netip.ParseAddr(d.Dev); err != nil {
			return Place{},
				fmt.Errorf("device %q is neither an address nor an interface; there are %s", d.Dev, names(ifaces))
		}
		return placeOf(ifaces, []string{d.Dev})
	case route.IsValid() && ipv6 && route.Is4():
		// The TCP exchange goes over IPv4, the packets over IPv6 from the same interface.
		if name, ok := owner(ifaces, route); ok {
			return (&DeviceOptions{Dev: name}).choose(ifaces, netip.Addr{}, ipv6)
		}
	case route.IsValid():
		p, err := placeOf(ifaces, []string{route.String()})
		if err != nil {
			return Place{}, err
		}
		return p.withSpares(), nil
	}
	for _, loopback := range []bool{false, true} {
		for _, f := range ifaces {
			if a, ok := pick(f.addrs, ipv6, loopback); ok {
				return Place{Addrs: []netip.Addr{a}, Iface: f.name}.withSpares(), nil
			}
		}
	}
	return Place{}, fmt.Errorf("this machine has no %s address at all", family(ipv6))
}

// placeOf checks that the addresses are this machine's, so that the error says
// so rather than a failing bind.
func placeOf(ifaces []iface, texts []string) (Place, error) {
	var p Place
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return Place{}, fmt.Errorf("local address %q: %w", text, err)
		}
		name, ok := owner(ifaces, a)
		if !ok {
			there := "it has none"
			if all := addresses(ifaces); all != "" {
				there = "there are " + all
			}
			return Place{}, fmt.Errorf("%v is not an address of this machine; %s", a, there)
		}
		p.Addrs = append(p.Addrs, a)
		if p.Iface == "" {
			p.Iface = name
		}
	}
	return p, nil
}

// owner returns the interface that has a. All of 127/8 belongs to the interface that has 127.0.0.1.
func owner(ifaces []iface, a netip.Addr) (string, bool) {
	for _, f := range ifaces {
		for _, b := range f.addrs {
			if a == b || a.Is4() && a.IsLoopback() && b.Is4() && b.IsLoopback() {
				return f.name, true
			}
		}
	}
	return "", false
}

// pick returns the first address of the family that is of use: link-local ones
// need a zone, which a GID does not have.
func pick(addrs []netip.Addr, ipv6, loopback bool) (netip.Addr, bool) {
	for _, a := range addrs {
		if a.Is6() == ipv6 && !a.IsLinkLocalUnicast() && (loopback || !a.IsLoopback()) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// routeTo asks the kernel which local address it would send from. Connecting a
// UDP socket sends nothing.
func routeTo(host string, ipv6 bool) netip.Addr {
	if host == "" {
		return netip.Addr{}
	}
	network := "udp4"
	if ipv6 {
		network = "udp6"
	}
	c, err := net.Dial(network, net.JoinHostPort(host, "4791"))
	if err != nil {
		c, err = net.Dial("udp", net.JoinHostPort(host, "4791"))
	}
	if err != nil {
		return netip.Addr{} // the TCP connection will say what is wrong
	}
	defer c.Close()
	at, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{} // a filter of system calls forbids the question
	}
	a := at.AddrPort().Addr().Unmap()
	if a.IsLoopback() && a.Is4() {
		// The kernel answers with the target's own address, where the
		// server's device is if it is on 127.0.0.1.
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return a.WithZone("")
}

func interfaces() ([]iface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []iface
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		f := iface{name: i.Name}
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(p.IP); ok {
					f.addrs = append(f.addrs, ip.Unmap())
				}
			}
		}
		out = append(out, f)
	}
	return out, nil
}

func family(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}

func names(ifaces []iface) string {
	var s []string
	for _, f := range ifaces {
		s = append(s, f.name)
	}
	return strings.Join(s, ", ")
}

func addresses(ifaces []iface) string {
	var s []string
	for _, f := range ifaces {
		for _, a := range f.addrs {
			s = append(s, a.String())
		}
	}
	return strings.Join(s, ", ")
}

// Places returns a place for each interface that a device can be opened on.
func Places() ([]Place, error) {
	ifaces, err := interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var places []Place
	for _, f := range ifaces {
		for _, ipv6 := range []bool{false, true} {
			if a, ok := pick(f.addrs, ipv6, true); ok {
				places = append(places, Place{Addrs: []netip.Addr{a}, Iface: f.name})
				break
			}
		}
	}
	return places, nil
}

// LoopbackPlace is the n-th address of 127.0.0.0/8, with the next ones as spares.
func LoopbackPlace(n byte) Place {
	return Place{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, n})}, Iface: "lo"}.withSpares()
}
