package ib

// The UDP source port of RoCE v2 identifies no socket; switches hash it to choose among equal
// paths, and receivers ignore it. The formulas are those of Linux (rdma_flow_label_to_udp_sport and
// friends) and of NICs, so that the two directions of a connection, and two implementations, agree.

// maxFlowLabel is the largest IPv6 flow label: 20 bits.
const maxFlowLabel = 1<<20 - 1

// sourcePortBase is the first port of the dynamic range, and of RoCE v2 source
// ports: the low 14 bits hold the entropy.
const sourcePortBase = 0xC000

// SourcePort folds a flow label of 20 bits into a UDP source port.
func SourcePort(flowLabel uint32) uint16 {
	flowLabel &= maxFlowLabel
	return uint16(sourcePortBase | (flowLabel&0x3FFF ^ flowLabel>>14))
}

// FlowLabelFromQPNs returns the flow label of a connection that has none of its own. It is the same
// from either end.
func FlowLabelFromQPNs(a, b QPN) uint32 {
	v := uint64(a) * uint64(b)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v) & maxFlowLabel
}

// FlowLabelFromPorts returns the flow label that RDMA-CM gives a connection between two ports of
// its port space. The active side computes it and sends it in the REQ.
func FlowLabelFromPorts(active, passive uint16) uint32 {
	return (uint32(active)*31 + uint32(passive)) & maxFlowLabel
}

// DatagramSourcePort returns the UDP source port of all packets of a UD queue pair, or of QP 1: a
// multiplicative hash of its number.
func DatagramSourcePort(n QPN) uint16 {
	const goldenRatio = 0x61C88647
	return uint16(sourcePortBase + goldenRatio*uint32(n)>>18)
}
