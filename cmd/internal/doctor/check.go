package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// check is one thing to look at. Its findings say ok, too, so that the reader sees what was looked
// at.
type check struct {
	name string
	run  func(v *view) []Finding
}

// checks are all of them, in the order of harm.
var checks = []check{
	{"address", checkAddress},
	{"interface", checkInterface},
	{"duplicate", checkDuplicate},
	{"rxe", checkRxe},
	{"port", checkPort},
	{"firewall", checkFirewall},
	{"rp-filter", checkRPFilter},
	{"descriptors", checkDescriptors},
	{"mtu", checkMTU},
	{"damage", checkDamage},
	{"conntrack", checkConntrack},
	{"buffers", checkBuffers},
	{"capabilities", checkCapabilities},
	{"offloads", checkOffloads},
	{"ecn", checkECN},
	{"pfc", checkPFC},
	{"memlock", checkMemlock},
	{"numa", checkNUMA},
	{"governor", checkGovernor},
	{"hugepages", checkHugePages},
}

// target is what to look at: an address, an interface, or, if it is empty, all that peers could
// reach.
type target struct {
	addr  netip.Addr
	iface string
}

// examine runs the checks whose names are in only, or all.
func examine(ctx context.Context, s *System, t target, only []string) ([]Finding, error) {
	v := &view{System: s, ctx: ctx, opened: map[netip.Addr]opened{}}
	all, err := s.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	if v.ifaces, err = t.choose(all); err != nil {
		return nil, err
	}
	v.named = t != target{}
	var found []Finding
	for _, c := range checks {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		for _, f := range c.run(v) {
			f.Check = c.name
			found = append(found, f)
		}
	}
	return found, nil
}

// choose returns the interfaces that are meant. Without a target these are all but
// loopback that have an address, or are up; loopback if it is alone.
func (t target) choose(all []Interface) ([]Interface, error) {
	var chosen, loopback []Interface
	for _, i := range all {
		switch {
		case t.iface != "":
			if i.Name == t.iface {
				return []Interface{i}, nil
			}
		case t.addr.IsValid():
			for _, a := range i.Addrs {
				if a == t.addr || i.Loopback && a.Is4() && t.addr.Is4() && t.addr.IsLoopback() {
					i.Addrs = []netip.Addr{t.addr} // Nets tell of the network still
					return []Interface{i}, nil
				}
			}
		case i.Loopback:
			loopback = append(loopback, i)
		case len(i.usable()) > 0 || i.Up:
			chosen = append(chosen, i)
		}
	}
	switch {
	case t.iface != "":
		return nil, fmt.Errorf("there is no interface %q", t.iface)
	case t.addr.IsValid():
		return nil, fmt.Errorf("%v is not an address of this machine", t.addr)
	case len(chosen) == 0:
		chosen = loopback
	}
	if len(chosen) == 0 {
		return nil, errors.New("this network namespace has no interface")
	}
	return chosen, nil
}
