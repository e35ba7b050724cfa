package xdp

import (
	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
)

// attach puts the program on the interface, in the driver or in the stack.
func attach(p *ebpf.Program, index int, native bool) (bpflink.Link, error) {
	o := bpflink.XDPOptions{Program: p, Interface: index, Flags: bpflink.XDPGenericMode}
	if native {
		o.Flags = bpflink.XDPDriverMode
	}
	return bpflink.AttachXDP(o)
}

// off reports whether an attachment no longer has an interface.
func off(i *bpflink.Info) bool {
	x := i.XDP()
	return x != nil && x.Ifindex == 0
}
