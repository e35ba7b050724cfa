package mem

import "github.com/goroce/goroce/ib"

// grant is what a key stands for: these bytes, under these addresses, with
// these rights. A Region has one, and so has a Window; the data path sees
// nothing else.
type grant struct {
	bytes  []byte // the memory; nil when nothing is granted
	va     uint64 // address of bytes[0] as work requests and peers see it
	pd     *PD
	region *Region // whose memory it is; nil for an unbound window
	win    *Window // the window, nil if the grant is a region's own
	access Access
	qpn    ib.QPN // the QP that a type 2 window is bound on
	key    uint32
	bound  bool // regions: registered, and the memory is there; windows: bound
	lost   bool // regions: registered, and the memory is not there
	// gen counts revocations. 64 bits do not wrap, so a generation never comes again.
	gen uint64
}

// revoke ends the grant for everyone who holds a View or an SGL from it.
func (g *grant) revoke() {
	g.gen++
	g.bound = false
	g.bytes = nil
	g.region = nil
}

// span returns the n bytes at address va, if they are all inside. It forms no
// sum that can wrap.
func (g *grant) span(va, n uint64) ([]byte, bool) {
	off := va - g.va
	size := uint64(len(g.bytes))
	if va < g.va || off > size || n > size-off {
		return nil, false
	}
	return g.bytes[off : off+n : off+n], true
}
