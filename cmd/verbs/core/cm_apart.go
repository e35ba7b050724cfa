package main

import "C"

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce/rdmacm"
)

// An ID that is bound to all addresses of a family that no device has is apart: as on a kernel it
// is bound, and may listen, and nothing ever comes. Servers that listen on 0.0.0.0 and then on
// [::], with RDMA_OPTION_ID_AFONLY, would not start otherwise. It has a port as any other one.

// apartPort is what one of these IDs has to itself.
type apartPort struct {
	ps rdmacm.PortSpace
	at netip.AddrPort
}

var apart = struct {
	mu sync.Mutex
	by map[apartPort][]*cmID
}{by: map[apartPort][]*cmID{}}

// bindApart takes a port; 0 chooses one. id.mu is held.
func (id *cmID) bindApart(a netip.AddrPort) C.int {
	const tries, first, last = 32, 32768, 60999
	apart.mu.Lock()
	defer apart.mu.Unlock()
	for range tries {
		at := a
		if a.Port() == 0 {
			at = netip.AddrPortFrom(a.Addr(), uint16(first+rand.IntN(last-first+1)))
		}
		k := apartPort{id.ps, at}
		if others := apart.by[k]; len(others) == 0 || id.reuse && a.Port() != 0 && others[0].reuse {
			apart.by[k] = append(others, id)
			id.apart = at
			return 0
		}
	}
	return C.int(syscall.EADDRINUSE)
}

// leaveApart gives the port back. id.mu is held.
func (id *cmID) leaveApart() {
	if !id.apart.IsValid() {
		return
	}
	apart.mu.Lock()
	defer apart.mu.Unlock()
	k := apartPort{id.ps, id.apart}
	var left []*cmID
	for _, o := range apart.by[k] {
		if o != id {
			left = append(left, o)
		}
	}
	if apart.by[k] = left; len(left) == 0 {
		delete(apart.by, k)
	}
	id.apart = netip.AddrPort{}
}
