package transport

import "github.com/goroce/goroce/transport/wire"

// What the engine exchanges with a link is of package wire.
type (
	Path      = wire.Path
	TxPacket  = wire.TxPacket
	RxPacket  = wire.RxPacket
	ICRCState = wire.ICRCState
	Checker   = wire.Checker
	Room      = wire.Room
)

// The constants of these.
const (
	MaxTxFrags = wire.MaxTxFrags

	ICRCRight   = wire.ICRCRight
	ICRCUnknown = wire.ICRCUnknown
	ICRCWrong   = wire.ICRCWrong

	ECNMask = wire.ECNMask
	ECT0    = wire.ECT0
	ECNCE   = wire.ECNCE
)
