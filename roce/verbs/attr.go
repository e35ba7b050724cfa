package verbs

import (
	"net"
	"net/netip"
	"reflect"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// DeviceAttr has the properties and limits of a device (ibv_device_attr; brackets give the field
// there if its name differs).
type DeviceAttr struct {
	NodeGUID        uint64 // derived from the network interface, as in rdma_rxe, or else from the address
	SystemImageGUID uint64 // the same (sys_image_guid)
	VendorID        uint32 // 0xFFFFFF: no IEEE vendor
	FirmwareVersion string // "goroce" (fw_ver)

	MaxMRBytes      uint64 // of one region (max_mr_size)
	MaxQP           int
	MaxQPWR         int    // work requests of a queue
	MaxSGE          int    // elements of a work request
	MaxSGERead      int    // elements of a READ (max_sge_rd)
	MaxInline       int    // bytes that SendInline can copy
	MaxMsgBytes     uint32 // bytes of a message (max_msg_sz of ibv_port_attr)
	MaxCQ           int
	MaxCQE          int // completions that a CQ can hold
	MaxMR           int
	MaxMW           int
	MaxPD           int
	MaxAH           int
	MaxQPRdAtomic   int // READs and atomics at a time, as responder (max_qp_rd_atom)
	MaxQPInitAtomic int // as requester (max_qp_init_rd_atom)
	MaxSRQ          int
	MaxSRQWR        int
	MaxSRQSGE       int
	MaxPKeys        int
	PhysicalPorts   int   // 1 (phys_port_cnt)
	LocalCAAckDelay uint8 // an ACK may take this long here: 4.096 us x 2^LocalCAAckDelay

	AtomicCap         AtomicCap
	MemWindowType2B   bool // IBV_DEVICE_MEM_WINDOW_TYPE_2B
	FlushGlobal       bool // IB_UVERBS_DEVICE_FLUSH_GLOBAL
	AtomicWrite       bool // IB_UVERBS_DEVICE_ATOMIC_WRITE
	ResizableSRQ      bool // IBV_DEVICE_SRQ_RESIZE
	CompletionVectors int  // num_comp_vectors of ibv_context
}

// AtomicCap says what atomics of a device are atomic with respect to (ibv_atomic_cap, same values).
type AtomicCap uint8

// The levels of atomicity.
const (
	AtomicNone   AtomicCap = iota // no atomics
	AtomicHCA                     // atomics of all queue pairs of the device
	AtomicGlobal                  // also sync/atomic in this process (IBV_ATOMIC_GLOB)
)

// String returns the text of ibv_devinfo.
func (c AtomicCap) String() string {
	switch c {
	case AtomicHCA:
		return "ATOMIC_HCA"
	case AtomicGlobal:
		return "ATOMIC_GLOB"
	}
	return "ATOMIC_NONE"
}

// PortAttr has the properties of a device's only port (ibv_port_attr).
type PortAttr struct {
	Active    bool    // the interfaces of the addresses are up (state)
	MaxMTU    ib.MTU  // 4096
	ActiveMTU ib.MTU  // the largest that the interfaces carry now, up to Config.MTU
	GIDs      int     // entries of [Device.GIDs] (gid_tbl_len)
	PKey      ib.PKey // the only one
	MaxMsg    uint32  // bytes of a message (max_msg_sz)
	LinkName  string  // what carries the packets: "udp", "sim", ...
	LinkLayer string  // "Ethernet"
}

// Attr returns the properties of the device.
func (d *Device) Attr() DeviceAttr {
	if d.unmade() {
		return DeviceAttr{}
	}
	lim := d.s.Table().Limits()
	var mac net.HardwareAddr
	if d.s.Mode() != shard.Driven { // a simulated address is no interface's here
		mac = hardwareAddr(d.s.Addrs()[0])
	}
	guid := nodeGUID(d.s.Addrs()[0], mac)
	return DeviceAttr{
		NodeGUID: guid, SystemImageGUID: guid,
		MaxMRBytes: lim.RegionBytes,
		MaxQP:      transport.MaxObjects, MaxQPWR: transport.MaxQueueWR,
		MaxSGE: transport.MaxSGE, MaxSGERead: transport.MaxSGE, MaxInline: transport.MaxInline,
		MaxCQ: transport.MaxObjects, MaxAH: transport.MaxObjects, MaxCQE: transport.MaxCQE,
		MaxMR: lim.Regions, MaxMW: lim.Windows, MaxPD: lim.PDs,
		MaxQPRdAtomic: transport.MaxRdAtomic, MaxQPInitAtomic: transport.MaxRdAtomic,
		MaxSRQ: transport.MaxObjects, MaxSRQWR: transport.MaxQueueWR, MaxSRQSGE: transport.MaxSGE,
		MaxMsgBytes: transport.MaxMessage, MaxPKeys: 1, PhysicalPorts: 1, LocalCAAckDelay: 15,
		AtomicCap: AtomicGlobal, MemWindowType2B: true, FlushGlobal: true, AtomicWrite: true, ResizableSRQ: true,
		VendorID: 0xFFFFFF, FirmwareVersion: "goroce", CompletionVectors: d.CompletionVectors(),
	}
}

// Port returns the properties of port 1.
func (d *Device) Port() PortAttr {
	if d.unmade() {
		return PortAttr{}
	}
	return PortAttr{
		Active: d.s.Up(), MaxMTU: ib.MTU4096, ActiveMTU: d.s.ActiveMTU(), GIDs: len(d.s.Addrs()),
		PKey: ib.PKeyDefault, MaxMsg: transport.MaxMessage,
		LinkName: d.s.Link().Capabilities().Name, LinkLayer: "Ethernet",
	}
}

// GIDs returns the GID table.
func (d *Device) GIDs() []ib.GID {
	if d.unmade() {
		return nil
	}
	gids := make([]ib.GID, len(d.s.Addrs()))
	for i, a := range d.s.Addrs() {
		gids[i] = ib.GIDFromAddr(a)
	}
	return gids
}

// Addrs returns the local addresses, in the order of the GID table.
func (d *Device) Addrs() []netip.Addr {
	if d.unmade() {
		return nil
	}
	return slices.Clone(d.s.Addrs())
}

// GIDIndexFor returns the index of the local address from which to reach peer: the peer's own
// address if it is local, else the first of the same family that is loopback exactly if the peer
// is, else the first of the same family.
func (d *Device) GIDIndexFor(peer ib.GID) (int, error) {
	if d.unmade() {
		return 0, access.ErrZero
	}
	a := peer.Addr()
	best := -1
	for i, l := range d.s.Addrs() {
		switch {
		case l == a:
			return i, nil
		case l.Is4() != a.Is4():
		case best < 0, l.IsLoopback() == a.IsLoopback() && d.s.Addrs()[best].IsLoopback() != a.IsLoopback():
			best = i
		}
	}
	if best < 0 {
		return 0, &NoRouteError{Peer: a, Local: d.s.Addrs()}
	}
	return best, nil
}

// Counters returns the counters of the engines, plus those of the links for what the engines cannot
// see.
func (d *Device) Counters() Counters {
	if d.unmade() {
		return Counters{}
	}
	var c Counters
	for _, s := range d.shards.all() {
		s.LockAlways()
		of := Counters(s.Engine().Counters())
		s.Unlock()
		addAll(&c, &of)
	}
	s := d.LinkStats()
	c.DropICRC += s.RxICRC
	c.DropNoQP += s.RxNobody
	c.DropMalformed += s.RxShort + s.RxTruncated
	c.SendErr += s.TxDropped
	c.LinkDowned += d.linkDowned.Load()
	c.LostAsyncEvents += d.async.lost()
	return c
}

// addAll adds the counters more to sum. Their type has only uint64 fields.
func addAll[T any](sum, more *T) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(more).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}

// LinkStats returns the counters of the links.
func (d *Device) LinkStats() link.Stats {
	if d.unmade() {
		return link.Stats{}
	}
	var sum link.Stats
	for _, s := range d.shards.all() {
		of := s.Link().Stats()
		addAll(&sum, &of)
	}
	return sum
}

// Capabilities says what the link does and which accelerations are on.
func (d *Device) Capabilities() link.Capabilities {
	if d.unmade() {
		return link.Capabilities{}
	}
	return d.s.Link().Capabilities()
}

// Background reports whether the device works in the background. If not, in polling mode and on a
// simulated link, it makes progress only while a caller polls or waits, and a goroutine that waits
// all the time keeps a CPU busy.
func (d *Device) Background() bool { return !d.unmade() && d.s.Mode() == shard.EventDriven }

// MemCounts returns how many protection domains, regions and windows exist.
func (d *Device) MemCounts() mem.Counts {
	if d.unmade() {
		return mem.Counts{}
	}
	d.s.LockAlways()
	defer d.unlock()
	return d.s.Table().Counts()
}

// DefaultAddrs returns the addresses that a device is opened on by default: the global IPv4 and
// IPv6 addresses of interfaces that are up, then loopback. It leaves out link-local addresses: a
// peer cannot reach them without a zone, and choosing one by default has misled users.
func DefaultAddrs() ([]netip.Addr, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, &OpenError{Err: err, Hint: "without rtnetlink (AF_NETLINK) addresses have to be given"}
	}
	var global, loop []netip.Addr
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, n := range addrs {
			p, _ := netip.ParsePrefix(n.String())
			switch a := p.Addr().Unmap(); {
			case !a.IsValid(), a.IsLinkLocalUnicast():
			case a.IsLoopback():
				loop = append(loop, a)
			default:
				global = append(global, a)
			}
		}
	}
	return append(global, loop...), nil
}
