package ib

// NewCNP returns a congestion notification packet to the queue pair dest,
// which sent what arrived with a congestion mark: BECN set and all else zero
// (annex A17; as ConnectX-4 sends it). rdma_rxe drops CNPs.
func NewCNP(dest QPN) Packet {
	return Packet{BTH: BTH{Opcode: CNP, BECN: true, PKey: PKeyDefault, DestQP: dest & QPNMask}}
}
