package main

/*
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// The communication manager for librdmacm. The contract is ../include/goroce_cm.h. An ID of
// librdmacm becomes one of package rdmacm when it gets a local address: before that it belongs to
// no device. Its queue pair stays with the program.

// cmDevices are the devices that librdmacm has opened, in its order. There are only ever more.
var cmDevices struct {
	mu  sync.Mutex
	all []*verbs.Device
}

//export goroce_cm_add_device
func goroce_cm_add_device(handle C.goroce_handle, helper *C.char) C.int {
	c := contexts.get(uint32(handle))
	if c == nil {
		return eINVAL
	}
	setWillHelper(C.GoString(helper))
	cmDevices.mu.Lock()
	defer cmDevices.mu.Unlock()
	cmDevices.all = append(cmDevices.all, c.Device)
	return 0
}

// cmAll returns the devices.
func cmAll() []*verbs.Device {
	cmDevices.mu.Lock()
	defer cmDevices.mu.Unlock()
	return cmDevices.all[:len(cmDevices.all):len(cmDevices.all)]
}

// cmDeviceNumber returns the number by which librdmacm knows a device; -1 if it does not.
func cmDeviceNumber(d *verbs.Device) int {
	for i, o := range cmAll() {
		if o == d {
			return i
		}
	}
	return -1
}

// cmErrno returns what the kernel's communication manager answers in the case of an error.
func cmErrno(err error) C.int {
	var reason *rdmacm.RejectedError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, verbs.ErrAddrInUse):
		return C.int(syscall.EADDRINUSE)
	case errors.Is(err, verbs.ErrAddrNotLocal):
		return C.int(syscall.EADDRNOTAVAIL)
	case errors.Is(err, verbs.ErrNoLocalGID):
		return C.int(syscall.ENETUNREACH)
	case errors.Is(err, verbs.ErrUnreachable), errors.Is(err, verbs.ErrPeerGone):
		return C.int(syscall.ETIMEDOUT) // the kernel's for a DREQ that nobody answers
	case errors.As(err, &reason), errors.Is(err, verbs.ErrConnRefused): // the latter by a host without a RoCE process
		return C.int(syscall.ECONNREFUSED)
	case errors.Is(err, verbs.ErrClosed):
		return C.int(syscall.ENODEV)
	}
	return errno(err)
}

// noDeviceErrno is why there is no device for a local address: ENODEV if this machine has it, as
// for one whose interface has no RDMA.
func noDeviceErrno(a netip.Addr) C.int {
	if list, err := net.InterfaceAddrs(); err == nil {
		for _, o := range list {
			if n, ok := o.(*net.IPNet); ok {
				if b, ok := netip.AddrFromSlice(n.IP); ok && b.Unmap() == a {
					return C.int(syscall.ENODEV)
				}
			}
		}
	}
	return C.int(syscall.EADDRNOTAVAIL)
}
