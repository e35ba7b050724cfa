package drill

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/ib"
)

// opNames are the packets of a script, as RC has them. UC and UD have the same names: the queue
// pair tells the transport.
var opNames = map[string]ib.Opcode{
	"SEND FIRST": ib.RCSendFirst, "SEND MIDDLE": ib.RCSendMiddle, "SEND LAST": ib.RCSendLast,
	"SEND LAST IMM": ib.RCSendLastImm, "SEND ONLY": ib.RCSendOnly, "SEND ONLY IMM": ib.RCSendOnlyImm,
	"SEND LAST INV": ib.RCSendLastInv, "SEND ONLY INV": ib.RCSendOnlyInv,
	"WRITE FIRST": ib.RCWriteFirst, "WRITE MIDDLE": ib.RCWriteMiddle, "WRITE LAST": ib.RCWriteLast,
	"WRITE LAST IMM": ib.RCWriteLastImm, "WRITE ONLY": ib.RCWriteOnly, "WRITE ONLY IMM": ib.RCWriteOnlyImm,
	"READ REQUEST": ib.RCReadRequest, "READ RESPONSE FIRST": ib.RCReadRespFirst,
	"READ RESPONSE MIDDLE": ib.RCReadRespMiddle, "READ RESPONSE LAST": ib.RCReadRespLast,
	"READ RESPONSE ONLY": ib.RCReadRespOnly, "ACK": ib.RCAcknowledge, "NAK": ib.RCAcknowledge,
	"RNR": ib.RCAcknowledge, "ATOMIC ACK": ib.RCAtomicAck, "CMP_SWAP": ib.RCCompareSwap,
	"FETCH_ADD": ib.RCFetchAdd, "FLUSH": ib.RCFlush, "ATOMIC_WRITE": ib.RCAtomicWrite, "CNP": ib.CNP,
}

// nakCodes are the words behind NAK.
var nakCodes = map[string]ib.Syndrome{
	"sequence": ib.NAKSequence, "invalid": ib.NAKInvalidRequest, "access": ib.NAKRemoteAccess,
	"operation": ib.NAKRemoteOperation,
}

// classOf is the opcode for the queue pairs of a transport.
func classOf(op ib.Opcode, t ib.Transport) ib.Opcode {
	if op == ib.CNP {
		return op
	}
	switch t {
	case ib.UC:
		return op | 0x20
	case ib.UD:
		return op | 0x60
	}
	return op
}

// opText names an opcode as scripts do.
func opText(p *ib.Packet) string {
	if p.Opcode == ib.RCAcknowledge {
		switch s := p.AETH.Syndrome; s >> 5 {
		case 0:
			return "ACK"
		case 1:
			return "RNR"
		default:
			for name, code := range nakCodes {
				if code == s {
					return "NAK " + name
				}
			}
			return fmt.Sprintf("NAK syndrome=%#02x", uint8(s))
		}
	}
	base, class := p.Opcode, ""
	switch p.Opcode >> 5 {
	case 1:
		base, class = p.Opcode&0x1f, "UC "
	case 3:
		base, class = p.Opcode&0x1f, "UD "
	}
	for name, op := range opNames {
		if op == base && op != ib.RCAcknowledge {
			return class + name
		}
	}
	return strings.TrimPrefix(p.Opcode.String(), "RC ")
}
