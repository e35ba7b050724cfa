package cm

// ECE is one side's enhanced connection establishment data: the vendor of its adapter, and options
// with a meaning for that vendor's adapters. Zero means none.
type ECE struct {
	VendorID uint32 // 24 bits
	Options  uint32
}

// extended is a message whose header has the options.
type extended struct {
	putter
	options uint32
}

// eceOf returns the ECE of a message with the given vendor.
func (in *message) eceOf(vendor uint32) ECE { return ECE{VendorID: vendor, Options: in.modifier} }
