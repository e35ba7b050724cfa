package ib

// PSN is a 24-bit packet sequence number. Comparisons are circular: a PSN is "after" another if it
// lies in the half of the number space that follows it (IBTA 9.7.1, "PSN region").
type PSN uint32

// PSNMask selects the 24 bits that travel in a BTH.
const PSNMask = 1<<24 - 1

// Add returns p advanced by n packets; n may be negative.
func (p PSN) Add(n int) PSN { return PSN(uint32(int64(p)+int64(n)) & PSNMask) }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return (p + 1) & PSNMask }

// Prev returns the PSN before p.
func (p PSN) Prev() PSN { return (p - 1) & PSNMask }

// Diff returns the signed circular distance p - q, in [-2^23, 2^23).
func (p PSN) Diff(q PSN) int { return int(int32((uint32(p)-uint32(q))<<8) >> 8) }

// Before reports whether p comes before q.
func (p PSN) Before(q PSN) bool { return p.Diff(q) < 0 }

// After reports whether p comes after q.
func (p PSN) After(q PSN) bool { return p.Diff(q) > 0 }

// InRange reports whether p is one of the n PSNs that start at first.
func (p PSN) InRange(first PSN, n int) bool {
	d := int((uint32(p) - uint32(first)) & PSNMask)
	return d < n
}

// MSN is the 24-bit message sequence number that a responder returns in an
// AETH. It counts completed messages and starts at 0 (IBTA 9.7.7.1).
type MSN uint32

// Next returns the MSN after m.
func (m MSN) Next() MSN { return (m + 1) & PSNMask }

// Diff returns the signed circular distance m - n, in [-2^23, 2^23).
func (m MSN) Diff(n MSN) int { return PSN(m).Diff(PSN(n)) }
