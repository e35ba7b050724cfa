package ib

import "fmt"

// QPN is a 24-bit queue pair number.
type QPN uint32

const (
	// QPNGSI is the general services interface, the QP of management datagrams.
	QPNGSI QPN = 1
	// QPNMulticast is the destination QP of every multicast packet.
	QPNMulticast QPN = 0xFFFFFF
	// QPNMask selects the 24 bits that travel in a header.
	QPNMask QPN = 0xFFFFFF
)

func (n QPN) String() string { return fmt.Sprintf("0x%06x", uint32(n)) }

// LKey names registered memory in work requests of the process that owns it.
type LKey uint32

// RKey names registered memory, or a memory window, to a remote peer.
type RKey uint32

// QKey guards a UD queue pair. A controlled Q_Key has its top bit set.
type QKey uint32

// QKeyGSI is the well-known Q_Key of QP 1 (IBTA 3.5.3).
const QKeyGSI QKey = 0x80010000

// QKeyControlled is the bit that makes a send use the Q_Key of its own QP
// instead of the one in the work request (IBTA 10.2.5).
const QKeyControlled QKey = 1 << 31

// PKey is a partition key: 15 bits of partition and the membership bit.
type PKey uint16

// PKeyDefault is full membership in the default partition, the only P_Key
// that RoCE peers use in practice.
const PKeyDefault PKey = 0xFFFF

// pkeyFullMember is the membership bit of a P_Key.
const pkeyFullMember = 1 << 15

// Match reports whether a packet that carries q may be received under p: equal
// partition, and at least one of the two a full member (IBTA 10.9.3).
func (p PKey) Match(q PKey) bool {
	return (p^q)&^pkeyFullMember == 0 && (p|q)&pkeyFullMember != 0
}

// Transport is the service type of a QP; it is also the class of an opcode.
type Transport uint8

// The service types that this stack supports.
const (
	TransportInvalid Transport = iota
	RC                         // reliable connection
	UC                         // unreliable connection
	UD                         // unreliable datagram
	TransportCNP               // congestion notification: no QP type of its own
)

var transportNames = [...]string{"invalid", "RC", "UC", "UD", "CNP"}

func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}
