package ib

// NewCNP returns a congestion notification packet for the queue pair dest, which sent a packet that
// arrived with a congestion mark: BECN is set and all else zero (annex A17; ConnectX-4 sends the
// same). rdma_rxe drops CNPs.
func NewCNP(dest QPN) Packet {
	return Packet{BTH: BTH{Opcode: CNP, BECN: true, PKey: PKeyDefault, DestQP: dest & QPNMask}}
}
