package transport

import "github.com/goroce/goroce/transport/edge"

// Types that the engine exchanges with a link, defined in package edge.
type (
	Path      = edge.Path
	TxPacket  = edge.TxPacket
	RxPacket  = edge.RxPacket
	ICRCState = edge.ICRCState
	Checker   = edge.Checker
	Room      = edge.Room
)

// Constants of these types.
const (
	MaxTxFrags = edge.MaxTxFrags

	ICRCRight   = edge.ICRCRight
	ICRCUnknown = edge.ICRCUnknown
	ICRCWrong   = edge.ICRCWrong

	ECNMask = edge.ECNMask
	ECT0    = edge.ECT0
	ECNCE   = edge.ECNCE
)
