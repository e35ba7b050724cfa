package dump

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/pcap"
	"golang.org/x/net/bpf"
)

// Numbers of protocols.
const (
	etherIPv4, etherIPv6            = 0x0800, 0x86DD
	etherVLAN, etherQinQ            = 0x8100, 0x88A8
	protoICMP, protoUDP, protoICMP6 = 1, 17, 58
	portVXLAN, portGeneve           = 4789, 6081
	icmpUnreachable                 = 3
	icmp6Errors                     = 2 // unreachable, too big: 1 and 2
)

// rocePackets is a filter for the kernel that lets in what the decoder may find RoCE in: UDP to its
// port, with RDMA-CM in it, the errors of ICMP, which quote packets, and tunnels that are taken
// apart. Frames with a VLAN tag that is still in them come in whole.
func rocePackets(link pcap.LinkType) []bpf.Instruction {
	ip := uint32(14)
	if link == pcap.LinkRaw {
		ip = 0
	}
	const yes, no = -1, -2
	type step struct {
		bpf.Instruction
		t, f int // where a jump goes: yes, no, or how many steps on
	}
	ports := []step{
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: ib.UDPPort}, yes, 0},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: portVXLAN}, yes, 0},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: portGeneve}, yes, no},
	}
	v4 := append([]step{
		{bpf.LoadAbsolute{Off: ip + 9, Size: 1}, 0, 0},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoICMP}, 0, 3},
		{bpf.LoadMemShift{Off: ip}, 0, 0},
		{bpf.LoadIndirect{Off: ip, Size: 1}, 0, 0},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: icmpUnreachable}, yes, no},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoUDP}, 0, no},
		{bpf.LoadAbsolute{Off: ip + 6, Size: 2}, 0, 0},
		{bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1FFF}, no, 0}, // a fragment without ports
		{bpf.LoadMemShift{Off: ip}, 0, 0},
		{bpf.LoadIndirect{Off: ip + 2, Size: 2}, 0, 0},
	}, ports...)
	v6 := append([]step{
		{bpf.LoadAbsolute{Off: ip + 6, Size: 1}, 0, 0},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoICMP6}, 0, 2},
		{bpf.LoadAbsolute{Off: ip + 40, Size: 1}, 0, 0},
		{bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: icmp6Errors}, no, yes},
		{bpf.JumpIf{Cond: bpf.JumpEqual, Val: protoUDP}, 0, no},
		{bpf.LoadAbsolute{Off: ip + 42, Size: 2}, 0, 0},
	}, ports...)
	var head []step
	if ip == 0 {
		head = []step{
			{bpf.LoadAbsolute{Off: 0, Size: 1}, 0, 0},
			{bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4}, 0, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: 4}, 1, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6}, len(v4), no},
		}
	} else {
		head = []step{
			{bpf.LoadAbsolute{Off: 12, Size: 2}, 0, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherIPv4}, 3, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherVLAN}, yes, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherQinQ}, yes, 0},
			{bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherIPv6}, len(v4), no},
		}
	}
	all := append(append(head, v4...), v6...)
	out := make([]bpf.Instruction, 0, len(all)+2)
	for i, s := range all {
		j, ok := s.Instruction.(bpf.JumpIf)
		if !ok {
			out = append(out, s.Instruction)
			continue
		}
		to := func(n int) uint8 {
			switch n {
			case yes:
				n = len(all) - i - 1
			case no:
				n = len(all) - i
			}
			return uint8(n)
		}
		j.SkipTrue, j.SkipFalse = to(s.t), to(s.f)
		out = append(out, j)
	}
	return append(out, bpf.RetConstant{Val: pcap.MaxRecordBytes}, bpf.RetConstant{Val: 0})
}

// attach gives a socket a filter.
func attach(fd int, program []bpf.Instruction) error {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	f := make([]unix.SockFilter, len(raw))
	for i, p := range raw {
		f[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}
