package transport

import "github.com/goroce/goroce/transport/wire"

// Types that the engine exchanges with a link, defined in package wire.
type (
	Path      = wire.Path
	TxPacket  = wire.TxPacket
	RxPacket  = wire.RxPacket
	ICRCState = wire.ICRCState
	Checker   = wire.Checker
	Room      = wire.Room
)

// Constants of these types.
const (
	MaxTxFrags = wire.MaxTxFrags

	ICRCRight   = wire.ICRCRight
	ICRCUnknown = wire.ICRCUnknown
	ICRCWrong   = wire.ICRCWrong

	ECNMask = wire.ECNMask
	ECT0    = wire.ECT0
	ECNCE   = wire.ECNCE
)
