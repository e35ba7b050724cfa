package ib

import "fmt"

// Syndrome is the first byte of an AETH: an ACK with a credit code, an RNR
// NAK with a timer code, or a NAK with a reason (IBTA 9.7.5.2.1).
type Syndrome uint8

// SyndromeKind is the meaning of a Syndrome's top three bits.
type SyndromeKind uint8

// The kinds of syndrome.
const (
	SyndromeACK SyndromeKind = iota
	SyndromeRNR
	SyndromeReserved
	SyndromeNAK
)

// Syndromes with a fixed value.
const (
	// ACKNoCredits acknowledges without end-to-end credits.
	ACKNoCredits Syndrome = 0x1F

	NAKSequence         Syndrome = 0x60 // PSN sequence error
	NAKInvalidRequest   Syndrome = 0x61
	NAKRemoteAccess     Syndrome = 0x62
	NAKRemoteOperation  Syndrome = 0x63
	NAKInvalidRDRequest Syndrome = 0x64
)

// ACKCredit returns the ACK syndrome with credit code c (0 to 31).
func ACKCredit(c CreditCode) Syndrome { return Syndrome(c & 31) }

// RNRNAK returns the RNR NAK syndrome with timer code c.
func RNRNAK(c RNRCode) Syndrome { return 0x20 | Syndrome(c&31) }

// Kind returns the kind of the syndrome. Values with the top bit set are reserved.
func (s Syndrome) Kind() SyndromeKind {
	switch s >> 5 {
	case 0:
		return SyndromeACK
	case 1:
		return SyndromeRNR
	case 3:
		return SyndromeNAK
	}
	return SyndromeReserved
}

// RNRCode returns the timer code of an RNR NAK.
func (s Syndrome) RNRCode() RNRCode { return RNRCode(s & 31) }

// CreditCode returns the credit code of an ACK.
func (s Syndrome) CreditCode() CreditCode { return CreditCode(s & 31) }

func (s Syndrome) String() string {
	switch s.Kind() {
	case SyndromeACK:
		if s.CreditCode() == CreditsUnused {
			return "ACK"
		}
		return fmt.Sprintf("ACK credits=%d", s.CreditCode().Credits())
	case SyndromeRNR:
		return fmt.Sprintf("RNR NAK timer=%d", s.RNRCode())
	}
	switch s {
	case NAKSequence:
		return "NAK PSN sequence error"
	case NAKInvalidRequest:
		return "NAK invalid request"
	case NAKRemoteAccess:
		return "NAK remote access error"
	case NAKRemoteOperation:
		return "NAK remote operational error"
	case NAKInvalidRDRequest:
		return "NAK invalid RD request"
	}
	return fmt.Sprintf("syndrome 0x%02x", uint8(s))
}

// CreditCode is the 5-bit encoding of end-to-end flow control credits: how
// many receive work requests the responder has posted (IBTA table 46).
type CreditCode uint8

// CreditsUnused says that the responder does not do end-to-end flow control.
const CreditsUnused CreditCode = 31

var creditTable = [31]int{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
	12288, 16384, 24576, 32768,
}

// Credits returns the number of receive work requests that c stands for, or
// -1 if credits are not used.
func (c CreditCode) Credits() int {
	if c &= 31; c == CreditsUnused {
		return -1
	}
	return creditTable[c]
}

// CreditCodeFor returns the largest code that promises no more than n receive work requests.
func CreditCodeFor(n int) CreditCode {
	c := CreditCode(0)
	for c+1 < CreditsUnused && creditTable[c+1] <= n {
		c++
	}
	return c
}
