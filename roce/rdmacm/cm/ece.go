package cm

// ECE is what one side says about enhanced connection establishment: who made its adapter, and
// options that mean something to that maker's adapters. Zero is nothing to say.
type ECE struct {
	VendorID uint32 // 24 bits
	Options  uint32
}

// extended is a message whose header has the options.
type extended struct {
	putter
	options uint32
}

// eceOf is what a message said that has the vendor.
func (in *message) eceOf(vendor uint32) ECE { return ECE{VendorID: vendor, Options: in.modifier} }
