package ib

import "fmt"

// Opcode is byte 0 of the BTH: the transport class in bits 7:5 and the operation in bits 4:0.
type Opcode uint8

// Classes of opcodes.
const (
	rcClass Opcode = 0x00
	ucClass Opcode = 0x20
	udClass Opcode = 0x60
)

// Opcodes of reliable connections.
const (
	RCSendFirst      Opcode = 0x00
	RCSendMiddle     Opcode = 0x01
	RCSendLast       Opcode = 0x02
	RCSendLastImm    Opcode = 0x03
	RCSendOnly       Opcode = 0x04
	RCSendOnlyImm    Opcode = 0x05
	RCWriteFirst     Opcode = 0x06
	RCWriteMiddle    Opcode = 0x07
	RCWriteLast      Opcode = 0x08
	RCWriteLastImm   Opcode = 0x09
	RCWriteOnly      Opcode = 0x0A
	RCWriteOnlyImm   Opcode = 0x0B
	RCReadRequest    Opcode = 0x0C
	RCReadRespFirst  Opcode = 0x0D
	RCReadRespMiddle Opcode = 0x0E
	RCReadRespLast   Opcode = 0x0F
	RCReadRespOnly   Opcode = 0x10
	RCAcknowledge    Opcode = 0x11
	RCAtomicAck      Opcode = 0x12
	RCCompareSwap    Opcode = 0x13
	RCFetchAdd       Opcode = 0x14
	RCSendLastInv    Opcode = 0x16
	RCSendOnlyInv    Opcode = 0x17
	RCFlush          Opcode = 0x1C // annex A19; rxe since Linux 6.2
	RCAtomicWrite    Opcode = 0x1D // annex A19; rxe since Linux 6.2
)

// Opcodes of unreliable connections, which share the encodings of RC.
const (
	UCSendFirst    = ucClass + RCSendFirst
	UCSendMiddle   = ucClass + RCSendMiddle
	UCSendLast     = ucClass + RCSendLast
	UCSendLastImm  = ucClass + RCSendLastImm
	UCSendOnly     = ucClass + RCSendOnly
	UCSendOnlyImm  = ucClass + RCSendOnlyImm
	UCWriteFirst   = ucClass + RCWriteFirst
	UCWriteMiddle  = ucClass + RCWriteMiddle
	UCWriteLast    = ucClass + RCWriteLast
	UCWriteLastImm = ucClass + RCWriteLastImm
	UCWriteOnly    = ucClass + RCWriteOnly
	UCWriteOnlyImm = ucClass + RCWriteOnlyImm
)

// Opcodes of unreliable datagrams, and congestion notification (annex A17).
const (
	UDSendOnly           = udClass + RCSendOnly
	UDSendOnlyImm        = udClass + RCSendOnlyImm
	CNP           Opcode = 0x81
)

// Headers is the set of extended headers that an opcode carries.
type Headers uint16

// The extended headers, in the order in which they follow the BTH.
const (
	HasDETH Headers = 1 << iota
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
	HasCNPReserved // the 16 reserved bytes of a CNP
)

// headerBytes is the length of each extended header, in the order of the Headers bits.
var headerBytes = [...]int{
	DETHBytes, FETHBytes, RETHBytes, AtomicETHBytes, AETHBytes,
	AtomicAckETHBytes, ImmDtBytes, IETHBytes, CNPReservedBytes,
}

// Bytes returns the total length of the headers in h.
func (h Headers) Bytes() int {
	n := 0
	for i, b := range headerBytes {
		if h&(1<<i) != 0 {
			n += b
		}
	}
	return n
}

// Position says where in its message a packet is, as two flags.
type Position uint8

// The positions; an Only packet is both First and Last.
const (
	Middle Position = 0
	First  Position = 1
	Last   Position = 2
	Only   Position = First | Last
)

// PayloadRule says how much payload an opcode may have (IBTA 9.7.4.1.6 and 9.7.5).
type PayloadRule uint8

// The payload rules.
const (
	PayloadNone     PayloadRule = iota // exactly 0
	PayloadFull                        // exactly the path MTU
	PayloadOneToMTU                    // 1 to the path MTU
	PayloadUpToMTU                     // 0 to the path MTU
	PayloadEight                       // exactly 8: ATOMIC WRITE
)

// Admits reports whether a payload of n bytes is legal at a path MTU of mtu bytes.
func (r PayloadRule) Admits(n, mtu int) bool {
	switch r {
	case PayloadNone:
		return n == 0
	case PayloadFull:
		return n == mtu
	case PayloadOneToMTU:
		return n >= 1 && n <= mtu
	case PayloadUpToMTU:
		return n <= mtu
	case PayloadEight:
		return n == 8
	}
	return false
}

// Operation is what a packet does, apart from its position in the message and its transport.
type Operation uint8

// The operations.
const (
	OpInvalid Operation = iota
	OpSend
	OpWrite
	OpRead
	OpCompareSwap
	OpFetchAdd
	OpAtomicWrite
	OpFlush
	OpReadResponse
	OpAcknowledge
	OpAtomicAck
	OpCNP
)

// OpcodeInfo is the table entry of an opcode.
type OpcodeInfo struct {
	Name      string
	Transport Transport
	Op        Operation
	Pos       Position
	Payload   PayloadRule
	Headers   Headers
	// HeaderLen is the length of BTH and extended headers in bytes; 0 marks an
	// opcode that this stack does not know.
	HeaderLen uint8
	// Response is set for packets of a responder: read responses and acknowledgements.
	Response bool
}

// Info returns the table entry of o. The entry of an unknown opcode has
// HeaderLen 0. The entry must not be changed.
func (o Opcode) Info() *OpcodeInfo { return &opcodes[o] }

// Known reports whether o is an opcode of RC, UC, UD or CNP.
func (o Opcode) Known() bool { return opcodes[o].HeaderLen != 0 }

// Has reports whether o carries all headers in h.
func (o Opcode) Has(h Headers) bool { return opcodes[o].Headers&h == h }

func (o Opcode) String() string {
	if n := opcodes[o].Name; n != "" {
		return n
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// opcodes is the one table of opcodes, complete after init.
var opcodes = buildOpcodes()

func buildOpcodes() (table [256]OpcodeInfo) {
	define := func(o Opcode, name string, t Transport, op Operation, pos Position, p PayloadRule, h Headers) {
		table[o] = OpcodeInfo{
			Name: name, Transport: t, Op: op, Pos: pos, Payload: p, Headers: h,
			HeaderLen: uint8(BTHBytes + h.Bytes()),
			Response:  op == OpReadResponse || op == OpAcknowledge || op == OpAtomicAck,
		}
	}
	for _, c := range []struct {
		class  Opcode
		t      Transport
		prefix string
	}{{rcClass, RC, "RC "}, {ucClass, UC, "UC "}} {
		both := func(o Opcode, name string, op Operation, pos Position, p PayloadRule, h Headers) {
			define(c.class+o, c.prefix+name, c.t, op, pos, p, h)
		}
		both(RCSendFirst, "SEND FIRST", OpSend, First, PayloadFull, 0)
		both(RCSendMiddle, "SEND MIDDLE", OpSend, Middle, PayloadFull, 0)
		both(RCSendLast, "SEND LAST", OpSend, Last, PayloadOneToMTU, 0)
		both(RCSendLastImm, "SEND LAST IMM", OpSend, Last, PayloadOneToMTU, HasImmDt)
		both(RCSendOnly, "SEND ONLY", OpSend, Only, PayloadUpToMTU, 0)
		both(RCSendOnlyImm, "SEND ONLY IMM", OpSend, Only, PayloadUpToMTU, HasImmDt)
		both(RCWriteFirst, "WRITE FIRST", OpWrite, First, PayloadFull, HasRETH)
		both(RCWriteMiddle, "WRITE MIDDLE", OpWrite, Middle, PayloadFull, 0)
		both(RCWriteLast, "WRITE LAST", OpWrite, Last, PayloadOneToMTU, 0)
		both(RCWriteLastImm, "WRITE LAST IMM", OpWrite, Last, PayloadOneToMTU, HasImmDt)
		both(RCWriteOnly, "WRITE ONLY", OpWrite, Only, PayloadUpToMTU, HasRETH)
		both(RCWriteOnlyImm, "WRITE ONLY IMM", OpWrite, Only, PayloadUpToMTU, HasRETH|HasImmDt)
	}
	define(RCReadRequest, "RC READ REQUEST", RC, OpRead, Only, PayloadNone, HasRETH)
	define(RCReadRespFirst, "RC READ RESPONSE FIRST", RC, OpReadResponse, First, PayloadFull, HasAETH)
	define(RCReadRespMiddle, "RC READ RESPONSE MIDDLE", RC, OpReadResponse, Middle, PayloadFull, 0)
	define(RCReadRespLast, "RC READ RESPONSE LAST", RC, OpReadResponse, Last, PayloadOneToMTU, HasAETH)
	define(RCReadRespOnly, "RC READ RESPONSE ONLY", RC, OpReadResponse, Only, PayloadUpToMTU, HasAETH)
	define(RCAcknowledge, "RC ACKNOWLEDGE", RC, OpAcknowledge, Only, PayloadNone, HasAETH)
	define(RCAtomicAck, "RC ATOMIC ACKNOWLEDGE", RC, OpAtomicAck, Only, PayloadNone, HasAETH|HasAtomicAckETH)
	define(RCCompareSwap, "RC COMPARE SWAP", RC, OpCompareSwap, Only, PayloadNone, HasAtomicETH)
	define(RCFetchAdd, "RC FETCH ADD", RC, OpFetchAdd, Only, PayloadNone, HasAtomicETH)
	define(RCSendLastInv, "RC SEND LAST INV", RC, OpSend, Last, PayloadOneToMTU, HasIETH)
	define(RCSendOnlyInv, "RC SEND ONLY INV", RC, OpSend, Only, PayloadUpToMTU, HasIETH)
	define(RCFlush, "RC FLUSH", RC, OpFlush, Only, PayloadNone, HasFETH|HasRETH)
	define(RCAtomicWrite, "RC ATOMIC WRITE", RC, OpAtomicWrite, Only, PayloadEight, HasRETH)
	define(UDSendOnly, "UD SEND ONLY", UD, OpSend, Only, PayloadUpToMTU, HasDETH)
	define(UDSendOnlyImm, "UD SEND ONLY IMM", UD, OpSend, Only, PayloadUpToMTU, HasDETH|HasImmDt)
	define(CNP, "CNP", TransportCNP, OpCNP, Only, PayloadNone, HasCNPReserved)
	return table
}
