package conform

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/internal/unix"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/peer"
)

// sideOf is what a peer is, as far as it has said.
func sideOf(p peer.Peer) Side {
	s := Side{Name: p.Name(), Link: p.Link(), MTU: p.Caps().MaxMTU}
	for _, f := range []peer.Family{peer.V4, peer.V6} {
		if a := p.Addr(f); a.IsValid() {
			s.Addrs = append(s.Addrs, a.String())
		}
	}
	if !p.Caps().AtomicWrite {
		s.Lacks = append(s.Lacks, "ATOMIC WRITE")
	}
	if !p.Caps().Flush {
		s.Lacks = append(s.Lacks, "FLUSH")
	}
	if a, ok := p.(*peer.Agent); ok {
		x := a.About()
		s.Program, s.Device, s.Firmware, s.Kernel = x.Program, x.Device, x.Firmware, x.Kernel
	} else if u := new(unix.Utsname); unix.Uname(u) == nil {
		s.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return s
}

// note says what to know of what is expected of a peer; empty if there is nothing.
func (o *Options) note(ref peer.Peer) string {
	a, ok := ref.(*peer.Agent)
	if !ok {
		return ""
	}
	switch own := drillProfile(a); {
	case o.Profile == "" && ref.Profile() == peer.ProfileSpec:
		return "Nothing is known of devices with such a name: what is expected is what the specification says. --profile names another expectation."
	case untried(a):
		var known []string
		for _, v := range drill.Versions(drill.Profile(ref.Profile())) {
			known = append(known, strings.TrimPrefix(string(v), string(ref.Profile())+"-"))
		}
		name := strings.Replace(string(own), "-", " ", 1)
		if own == drill.Rxe {
			name = "rxe of an unknown version"
		}
		return fmt.Sprintf("%s has not been tried before. It may deviate as versions %s do, which have.",
			name, strings.Join(known, " and "))
	}
	return ""
}
