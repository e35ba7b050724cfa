package transport

// cnpState says whether a congestion notification is owed to the peer.
type cnpState struct{ due bool }

func (r *responder) buildCNP(tx *TxPacket) { r.cnp.due = false }
