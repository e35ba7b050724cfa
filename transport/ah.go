package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// AH is an address handle: the way to a UD peer or multicast group. Only QPs of the engine that
// made it may use it, since that engine's link keeps prepared state on the path. A device with
// several engines makes one handle for each engine that sends there.
type AH struct {
	e    *Engine
	pd   *mem.PD
	av   AddressVector
	path Path
	gone bool
}

// CreateAH makes an address handle for UD sends.
func (e *Engine) CreateAH(pd *mem.PD, av AddressVector) (*AH, error) {
	const op = "create AH"
	a := &AH{e: e, pd: pd, av: av}
	if err := e.resolve(op, &av, true, &a.path); err != nil {
		return nil, err
	}
	if err := e.retainPD(op, pd, &e.ahs); err != nil {
		return nil, err
	}
	if av.FlowLabel != 0 {
		a.path.SrcPort = ib.SourcePort(av.FlowLabel)
	} else {
		a.path.SrcPort = ib.SourcePort(addrHash(&a.path))
	}
	return a, nil
}

// Query returns the address vector that the handle was made from.
func (a *AH) Query() AddressVector { return a.av }

// Manage marks a handle not yet in use as one for messages to queue pair 1: see Path.Management.
func (a *AH) Manage() { a.path.Management = true }

// Destroy releases the handle. Sends already posted with it still go out.
func (a *AH) Destroy() error {
	if a.gone {
		return &EngineError{Op: "destroy AH", Err: ErrDestroyed}
	}
	a.gone = true
	a.pd.Release()
	a.e.ahs--
	return nil
}

// resolve checks av and fills the fields of p that follow from it: all except the source port.
func (e *Engine) resolve(op string, av *AddressVector, multicast bool, p *Path) error {
	if av.SGIDIndex < 0 || av.SGIDIndex >= len(e.cfg.GIDs) {
		return argError(op, "ah_attr.sgid_index",
			fmt.Sprintf("%d, and the table has %d", av.SGIDIndex, len(e.cfg.GIDs)))
	}
	src, dst := e.cfg.GIDs[av.SGIDIndex].Unmap(), av.DGID.Addr()
	switch {
	case av.DGID.IsZero() || dst.IsUnspecified():
		return argError(op, "ah_attr.dgid", "zero")
	case av.DGID.IsMulticast() && !multicast:
		return argError(op, "ah_attr.dgid", "multicast")
	case src.Is4() != dst.Is4():
		return argError(op, "ah_attr.dgid",
			fmt.Sprintf("%v cannot be reached from %v: another address family", dst, src))
	case av.FlowLabel > maxFlowLabel:
		return argError(op, "ah_attr.flow_label", fmt.Sprintf("%#x exceeds 20 bits", av.FlowLabel))
	}
	if src.Is6() {
		// A link-local peer is on the same link as the local address.
		dst = dst.WithZone(src.Zone())
	}
	hop := av.HopLimit
	if hop == 0 {
		hop = DefaultHopLimit
	}
	*p = Path{
		Src: src, Dst: dst, SGIDIndex: av.SGIDIndex, SrcPort: p.SrcPort,
		FlowLabel: av.FlowLabel, TrafficClass: av.TrafficClass, HopLimit: hop,
	}
	return nil
}

// addrHash spreads the flows of address handles that have no flow label.
func addrHash(p *Path) uint32 {
	h := uint64(14695981039346656037) // FNV-1a over 32-bit words
	for _, a := range [][16]byte{p.Src.As16(), p.Dst.As16()} {
		for i := 0; i < 16; i += 4 {
			h = (h ^ uint64(binary.BigEndian.Uint32(a[i:]))) * 1099511628211
		}
	}
	return uint32(h>>40^h>>20^h) & maxFlowLabel
}
