package main

/*
#include <netinet/in.h>
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// addrOf reads an address of the program; the C half has checked the family.
func addrOf(sa *C.struct_sockaddr) netip.AddrPort {
	if sa == nil {
		return netip.AddrPort{}
	}
	switch sa.sa_family {
	case C.AF_INET:
		in := (*C.struct_sockaddr_in)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(*(*[4]byte)(unsafe.Pointer(&in.sin_addr))),
			portOf(unsafe.Pointer(&in.sin_port)))
	case C.AF_INET6:
		in := (*C.struct_sockaddr_in6)(unsafe.Pointer(sa))
		a := netip.AddrFrom16(*(*[16]byte)(unsafe.Pointer(&in.sin6_addr))).Unmap()
		if scope := uint32(in.sin6_scope_id); scope != 0 && a.Is6() {
			zone := strconv.FormatUint(uint64(scope), 10)
			if i, err := net.InterfaceByIndex(int(scope)); err == nil {
				zone = i.Name
			}
			a = a.WithZone(zone)
		}
		return netip.AddrPortFrom(a, portOf(unsafe.Pointer(&in.sin6_port)))
	}
	return netip.AddrPort{}
}

func portOf(p unsafe.Pointer) uint16 { return binary.BigEndian.Uint16((*[2]byte)(p)[:]) }

// putAddr writes an address for the program; an invalid one has family 0.
func putAddr(to *C.struct_sockaddr_storage, a netip.AddrPort) {
	*to = C.struct_sockaddr_storage{}
	switch {
	case a.Addr().Is4():
		in := (*C.struct_sockaddr_in)(unsafe.Pointer(to))
		in.sin_family = C.AF_INET
		*(*[4]byte)(unsafe.Pointer(&in.sin_addr)) = a.Addr().As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&in.sin_port))[:], a.Port())
	case a.Addr().Is6():
		in := (*C.struct_sockaddr_in6)(unsafe.Pointer(to))
		in.sin6_family = C.AF_INET6
		*(*[16]byte)(unsafe.Pointer(&in.sin6_addr)) = a.Addr().As16()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&in.sin6_port))[:], a.Port())
		if zone := a.Addr().Zone(); zone != "" {
			if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
				in.sin6_scope_id = C.uint32_t(n)
			} else if i, err := net.InterfaceByName(zone); err == nil {
				in.sin6_scope_id = C.uint32_t(i.Index)
			}
		}
	}
}

// deviceAt returns the device that has an address, nil if none does.
func deviceAt(a netip.Addr) *verbs.Device {
	a = a.WithZone("")
	for _, d := range cmAll() {
		if slices.Contains(d.Addrs(), a) {
			return d
		}
	}
	return nil
}

// deviceOf returns the first device with an address of a family, and that address.
func deviceOf(v4 bool) (*verbs.Device, netip.Addr) {
	for _, d := range cmAll() {
		for _, a := range d.Addrs() {
			if a.Is4() == v4 {
				return d, a
			}
		}
	}
	return nil, netip.Addr{}
}

// localAddr returns what a program means by a local address. Loopback addresses, which no device
// has unless it was opened on one, stand for the first device: many examples listen on 127.0.0.1,
// and udpong on [::1], also where there is IPv4 only.
func localAddr(a netip.AddrPort, onlyV6 bool) netip.AddrPort {
	if !a.Addr().IsLoopback() || deviceAt(a.Addr()) != nil {
		return a
	}
	if own := ownAddr(a.Addr().Is4()); own.IsValid() && !(onlyV6 && own.Is4()) {
		return netip.AddrPortFrom(own, a.Port())
	}
	return a
}

// bindErrno returns what a program is told of binding to an address for which local stands. One
// that listens on 127.0.0.1 and on [::1] has the first device already, and goes on if the other
// address is not there.
func bindErrno(asked, local netip.AddrPort, e C.int) C.int {
	if e == C.int(syscall.EADDRINUSE) && asked.Addr().Is4() != local.Addr().Is4() {
		return C.int(syscall.EADDRNOTAVAIL)
	}
	return e
}

// ownAddr returns the first address of the first device, in a family if any device has one of it.
func ownAddr(v4 bool) netip.Addr {
	_, own := deviceOf(v4)
	if !own.IsValid() {
		_, own = deviceOf(!v4)
	}
	return own
}

// peerAddr returns what a program means by the address of a peer. This host, by whatever name, is
// the first device unless that is on a loopback address, where others can be too.
func peerAddr(a netip.AddrPort) netip.AddrPort {
	if !a.Addr().IsLoopback() && !a.Addr().IsUnspecified() {
		return a
	}
	own := ownAddr(a.Addr().Is4())
	if !own.IsValid() || own.IsLoopback() && own.Is4() == a.Addr().Is4() {
		return a
	}
	return netip.AddrPortFrom(own, a.Port())
}

// deviceTo returns the device to reach a peer from: that of the local address, if there is one, or
// of the address that the kernel would speak from.
func deviceTo(src, dst netip.Addr) *verbs.Device {
	if src.IsValid() && !src.IsUnspecified() {
		return deviceAt(src)
	}
	if d := deviceAt(dst); d != nil {
		return d
	}
	if len(cmAll()) > 1 && !dst.IsMulticast() {
		if from, err := rdmacm.RouteSource(dst); err == nil {
			if d := deviceAt(from); d != nil {
				return d
			}
		}
	}
	d, _ := deviceOf(dst.Is4())
	return d
}
