package xdp

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/goroce/goroce/internal/unix"
)

var native = binary.NativeEndian

// programConfig has the fixed parameters of an interface's program.
type programConfig struct {
	port     uint16
	loopback bool // of the loopback interface
	frags    bool // frames in several buffers
	queues   int
}

// program is the loaded program of an interface with its maps.
type program struct {
	prog    *ebpf.Program
	sockets *ebpf.Map // by queue
	addrs   *ebpf.Map // local addresses and groups, by their 16 bytes
	station *ebpf.Map // one entry of stationBytes: what frames for this interface look like
}

// stationBytes: MAC address, VLAN in host order.
const stationBytes = 8

func load(c *programConfig) (*program, error) {
	p := &program{}
	if err := p.load(c); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *program) load(c *programConfig) (err error) {
	if p.sockets, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "goroce_socks", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(c.queues)}); err != nil {
		return err
	}
	if p.addrs, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "goroce_addrs", Type: ebpf.Hash, KeySize: 16, ValueSize: 4, MaxEntries: maxAddrs}); err != nil {
		return err
	}
	if p.station, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "goroce_station", Type: ebpf.Array, KeySize: 4, ValueSize: stationBytes, MaxEntries: 1}); err != nil {
		return err
	}
	spec := &ebpf.ProgramSpec{Name: "goroce_roce", Type: ebpf.XDP, License: "Apache-2.0", Instructions: p.assemble(c)}
	if c.frags {
		spec.Flags = unix.BPF_F_XDP_HAS_FRAGS
	}
	p.prog, err = ebpf.NewProgram(spec)
	return err
}

func (p *program) close() {
	for _, m := range []*ebpf.Map{p.sockets, p.addrs, p.station} {
		if m != nil {
			m.Close()
		}
	}
	if p.prog != nil {
		p.prog.Close()
	}
}

// setStation tells the program the MAC address and VLAN of the interface.
func (p *program) setStation(mac [6]byte, vlan uint16) error {
	var v [stationBytes]byte
	copy(v[:], mac[:])
	native.PutUint16(v[6:], vlan)
	return p.station.Put(uint32(0), v[:])
}

// listen makes packets to an address redirected, or no longer.
func (p *program) listen(a netip.Addr, on bool) error {
	k := a.As16()
	if on {
		return p.addrs.Put(k[:], uint32(1))
	}
	return p.addrs.Delete(k[:])
}

// xdpPass is the verdict XDP_PASS: the packet goes on to the kernel's stack.
const xdpPass = 2

// Fields of struct xdp_md.
const (
	mdData       = 0
	mdDataEnd    = 4
	mdQueueIndex = 16
)

// be16 returns how a load sees a 16-bit number in network byte order.
func be16(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(native.Uint16(b[:]))
}

// assemble writes the program: frames for this station, with or without VLAN tag as configured,
// with UDP to the port at one of the addresses, go to the socket of their queue. Everything else
// passes, including packets for which there is no socket.
//
// R6 is the context, R7 the current header, R8 the end of the packet.
func (p *program) assemble(c *programConfig) asm.Instructions {
	const keyAt, zeroAt = -16, -20
	a := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, mdData, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, mdDataEnd, asm.Word),
		// R9 = &station[0]
		asm.StoreImm(asm.RFP, zeroAt, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, p.station.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, zeroAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(asm.R9, asm.R0),
	}
	op := func(i ...asm.Instruction) { a = append(a, i...) }
	// need jumps to pass unless n bytes are there.
	need := func(n int32) {
		op(asm.Mov.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, n), asm.JGT.Reg(asm.R2, asm.R8, "pass"))
	}
	must := func(at int16, size asm.Size, v int32) {
		op(asm.LoadMem(asm.R2, asm.R7, at, size), asm.JNE.Imm(asm.R2, v, "pass"))
	}
	label := func(s string) { op(asm.Mov.Imm(asm.R0, 0).WithSymbol(s)) }

	// Ethernet: to this station, or to a group.
	need(14)
	op(
		asm.LoadMem(asm.R2, asm.R7, 0, asm.Byte),
		asm.JSet.Imm(asm.R2, 1, "mac-ok"),
	)
	for i := int16(0); i < 6; i += 2 {
		op(
			asm.LoadMem(asm.R2, asm.R7, i, asm.Half),
			asm.LoadMem(asm.R3, asm.R9, i, asm.Half),
			asm.JNE.Reg(asm.R2, asm.R3, "pass"),
		)
	}
	label("mac-ok")
	// R3 = VLAN of the frame, R4 = protocol.
	op(
		asm.Mov.Imm(asm.R3, 0),
		asm.LoadMem(asm.R4, asm.R7, 12, asm.Half),
		asm.JNE.Imm(asm.R4, be16(unix.ETH_P_8021Q), "vlan-ok"),
	)
	need(18)
	op(
		asm.LoadMem(asm.R3, asm.R7, 14, asm.Half),
		asm.HostTo(asm.BE, asm.R3, asm.Half),
		asm.And.Imm(asm.R3, 0xFFF),
		asm.LoadMem(asm.R4, asm.R7, 16, asm.Half),
		asm.Add.Imm(asm.R7, 4),
	)
	label("vlan-ok")
	op(
		asm.LoadMem(asm.R2, asm.R9, 6, asm.Half),
		asm.JNE.Reg(asm.R2, asm.R3, "pass"),
		asm.Add.Imm(asm.R7, 14),
		asm.JEq.Imm(asm.R4, be16(unix.ETH_P_IPV6), "ip6"),
		asm.JNE.Imm(asm.R4, be16(unix.ETH_P_IP), "pass"),
	)
	// IPv4 without options, no fragment.
	need(28)
	must(0, asm.Byte, 0x45)
	must(9, asm.Byte, unix.IPPROTO_UDP)
	op(asm.LoadMem(asm.R2, asm.R7, 6, asm.Half), asm.JSet.Imm(asm.R2, be16(0x3FFF), "pass"))
	must(22, asm.Half, be16(c.port))
	if !c.loopback {
		op(asm.LoadMem(asm.R2, asm.R7, 12, asm.Byte), asm.JEq.Imm(asm.R2, 127, "pass"))
	}
	op(
		// ::ffff:a.b.c.d
		asm.StoreImm(asm.RFP, keyAt, 0, asm.Word),
		asm.StoreImm(asm.RFP, keyAt+4, 0, asm.Word),
		asm.StoreImm(asm.RFP, keyAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, keyAt+10, -1, asm.Half),
		asm.LoadMem(asm.R2, asm.R7, 16, asm.Half),
		asm.StoreMem(asm.RFP, keyAt+12, asm.R2, asm.Half),
		asm.LoadMem(asm.R2, asm.R7, 18, asm.Half),
		asm.StoreMem(asm.RFP, keyAt+14, asm.R2, asm.Half),
		asm.Ja.Label("look-up"),
	)
	// IPv6 without extension headers.
	label("ip6")
	need(48)
	op(asm.LoadMem(asm.R2, asm.R7, 0, asm.Byte), asm.And.Imm(asm.R2, 0xF0), asm.JNE.Imm(asm.R2, 0x60, "pass"))
	must(6, asm.Byte, unix.IPPROTO_UDP)
	must(42, asm.Half, be16(c.port))
	if !c.loopback {
		for i := int16(0); i < 14; i += 2 {
			op(asm.LoadMem(asm.R2, asm.R7, 8+i, asm.Half), asm.JNE.Imm(asm.R2, 0, "source-ok"))
		}
		op(asm.LoadMem(asm.R2, asm.R7, 22, asm.Half), asm.JEq.Imm(asm.R2, be16(1), "pass"))
		label("source-ok")
	}
	// From its end: the verifier takes a store at a multiple of 8 for a spilled register. Before
	// Linux 6.8 only a process with CAP_PERFMON may then write into the rest of the 8 bytes.
	for i := int16(14); i >= 0; i -= 2 {
		op(
			asm.LoadMem(asm.R2, asm.R7, 24+i, asm.Half),
			asm.StoreMem(asm.RFP, keyAt+i, asm.R2, asm.Half),
		)
	}
	label("look-up")
	op(
		asm.LoadMapPtr(asm.R1, p.addrs.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMapPtr(asm.R1, p.sockets.FD()),
		asm.LoadMem(asm.R2, asm.R6, mdQueueIndex, asm.Word),
		asm.Mov.Imm(asm.R3, xdpPass), // if there is no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"),
		asm.Return(),
	)
	return a
}
