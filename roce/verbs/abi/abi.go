package abi

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// none marks numbers that stand for nothing here.
const none = 0xFF

// sendOpcodes are the operations by their number in ibv_wr_opcode.
var sendOpcodes = [...]verbs.WROpcode{
	0:  verbs.WRWrite,
	1:  verbs.WRWriteImm,
	2:  verbs.WRSend,
	3:  verbs.WRSendImm,
	4:  verbs.WRRead,
	5:  verbs.WRCompareSwap,
	6:  verbs.WRFetchAdd,
	7:  verbs.WRLocalInv,
	8:  verbs.WRBindMW,
	9:  verbs.WRSendInv,
	10: none, // TSO
	11: none, // DRIVER1
	12: none,
	13: none,
	14: verbs.WRFlush,
	15: verbs.WRAtomicWrite,
}

// completionOpcodes are the numbers in ibv_wc_opcode.
var completionOpcodes = [...]uint8{
	verbs.WCSend:         0,
	verbs.WCWrite:        1,
	verbs.WCRead:         2,
	verbs.WCCompareSwap:  3,
	verbs.WCFetchAdd:     4,
	verbs.WCBindMW:       5,
	verbs.WCLocalInv:     6,
	verbs.WCFlush:        8, // 7 is TSO
	verbs.WCAtomicWrite:  9,
	verbs.WCRecv:         128,
	verbs.WCRecvWriteImm: 129,
}

// events are the numbers in ibv_event_type.
var events = map[verbs.EventType]uint32{
	verbs.EventCQError:         0,
	verbs.EventQPFatal:         1,
	verbs.EventQPRequestError:  2,
	verbs.EventQPAccessError:   3,
	verbs.EventCommEstablished: 4,
	verbs.EventSQDrained:       5,
	verbs.EventPortActive:      9,
	verbs.EventPortError:       10,
	verbs.EventSRQError:        14,
	verbs.EventSRQLimitReached: 15,
	verbs.EventLastWQEReached:  16,
}

// SendOpcode returns the operation of a number of ibv_wr_opcode, and false if there is none here.
func SendOpcode(n uint32) (verbs.WROpcode, bool) {
	if n >= uint32(len(sendOpcodes)) || sendOpcodes[n] == none {
		return 0, false
	}
	return sendOpcodes[n], true
}

// SendOpcodeNumber is the way back. ok is false for what is no operation.
func SendOpcodeNumber(o verbs.WROpcode) (n uint32, ok bool) {
	for n, s := range sendOpcodes {
		if s == o && s != none {
			return uint32(n), true
		}
	}
	return 0, false
}

// CompletionOpcode returns the number of an opcode in ibv_wc_opcode.
func CompletionOpcode(o verbs.WCOpcode) (n uint32, ok bool) {
	if int(o) >= len(completionOpcodes) || completionOpcodes[o] == 0 && o != verbs.WCSend {
		return 0, false
	}
	return uint32(completionOpcodes[o]), true
}

// AsyncEvent returns the number of an event in ibv_event_type. ok is false for one that verbs does not have, as
// EventPortMTU, which a binding keeps to itself.
func AsyncEvent(t verbs.EventType) (n uint32, ok bool) {
	n, ok = events[t]
	return n, ok
}

// QPType returns the transport of a number of ibv_qp_type, and false for one that is not served.
func QPType(n uint32) (ib.Transport, bool) {
	switch n {
	case 2:
		return ib.RC, true
	case 3:
		return ib.UC, true
	case 4:
		return ib.UD, true
	}
	return ib.TransportInvalid, false
}

// QPTypeNumber is the way back. ok is false for what no queue pair has.
func QPTypeNumber(t ib.Transport) (n uint32, ok bool) {
	switch t {
	case ib.RC:
		return 2, true
	case ib.UC:
		return 3, true
	case ib.UD:
		return 4, true
	}
	return 0, false
}

// WindowType returns the type of a memory window of a number of ibv_mw_type, whose type 2 is 2B as that of rdma_rxe and
// ConnectX.
func WindowType(n uint32) (verbs.WindowType, bool) {
	switch n {
	case 1:
		return verbs.WindowType1, true
	case 2:
		return verbs.WindowType2B, true
	}
	return 0, false
}
