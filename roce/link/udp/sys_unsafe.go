package udp

import (
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// rawName is the socket address of a message: a sockaddr_in or sockaddr_in6.
type rawName struct {
	in6 unix.RawSockaddrInet6
}

func (n *rawName) in4() *unix.RawSockaddrInet4 {
	// The larger struct holds the smaller; both begin with the family.
	return (*unix.RawSockaddrInet4)(unsafe.Pointer(&n.in6))
}

func (n *rawName) bytes() *byte { return (*byte)(unsafe.Pointer(&n.in6)) }

// portBytes returns the port in network byte order, as stored in the struct.
func portBytes(p *uint16) *[2]byte { return (*[2]byte)(unsafe.Pointer(p)) }
