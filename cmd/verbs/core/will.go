package main

/*
#include <stdlib.h>
#include "../include/goroce_will.h"
#include "will.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"golang.org/x/sys/unix"
)

// The kernel ends the connections of a process that ends, however it does. Here a process that is
// killed says nothing. So what there is to say to its peers is in shared memory all the time, and a
// helper says it afterwards: see ../include/goroce_will.h.

const (
	willBytes     = C.sizeof_struct_goroce_will
	willsHeader   = C.sizeof_struct_goroce_wills - C.GOROCE_MAX_WILLS*willBytes
	firstWillsMap = 64 << 10
)

// A will is a disconnect request, a datagram.
const willPacketBytes = ib.BTHBytes + ib.DETHBytes + mad.Bytes

var _ [willPacketBytes]struct{} = [C.GOROCE_WILL_BYTES]struct{}{}

// willFile is the wills of this process.
type willFile struct {
	mu     sync.Mutex
	mem    []byte // mapped; grows
	places map[willKey]uint32
	free   []uint32 // places that were used
	used   uint32
}

// willKey names a connection.
type willKey struct {
	device int
	id     uint32
}

// deviceWills is the keeper of a device.
type deviceWills struct {
	file   *willFile
	device int
}

// wills is what there is in this process, made with its first connection.
var wills struct {
	mu      sync.Mutex
	helper  string // the program; "": there is none
	tried   bool
	file    *willFile // nil: it could not be made
	devices map[*verbs.Device]bool
}

func setWillHelper(path string) {
	wills.mu.Lock()
	defer wills.mu.Unlock()
	if wills.helper == "" {
		wills.helper = path
	}
}

// tellWhenGone arranges that the peers of a device are told when the process has ended. It is
// called before the device has its first connection.
func tellWhenGone(d *verbs.Device) {
	wills.mu.Lock()
	defer wills.mu.Unlock()
	if !wills.tried {
		wills.tried = true
		var err error
		if wills.file, err = startWills(wills.helper); err != nil {
			remark("peers are not told if this program is killed: %v", err)
		}
	}
	if wills.file == nil || wills.devices[d] {
		return
	}
	if wills.devices == nil {
		wills.devices = map[*verbs.Device]bool{}
	}
	wills.devices[d] = true
	w := &deviceWills{wills.file, len(wills.devices)}
	if ch, err := rdmacm.CreateEventChannel(d); err == nil { // a device that is closed needs none
		_ = core.Open(ch).KeepWills(w.put, w.drop)
		_ = ch.Close()
	}
}

// startWills makes the file, and starts the helper.
func startWills(helper string) (*willFile, error) {
	if helper == "" {
		return nil, errors.New("the helper is not known")
	}
	f, fd, err := newWillFile()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	path := C.CString(helper)
	defer C.free(unsafe.Pointer(path))
	switch e := syscall.Errno(C.will_start(path, C.int(fd))); e {
	case 0:
		return f, nil
	case syscall.ECHILD:
		err = errors.New("it adopts orphans, and would find a child that it has not made")
	default:
		err = fmt.Errorf("%s: %w", helper, e)
	}
	_ = unix.Munmap(f.mem)
	return nil, err
}

// newWillFile makes the file. The descriptor is the helper's; the lock is another's, of which
// nothing is left but the mapping.
func newWillFile() (f *willFile, fd int, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur < C.sizeof_struct_goroce_wills {
		return nil, -1, errors.New("files must not be as long (ulimit -f)") // it would cost a SIGXFSZ
	}
	if fd, err = unix.MemfdCreate("goroce wills", unix.MFD_CLOEXEC); err != nil {
		return nil, -1, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err := unix.Ftruncate(fd, C.sizeof_struct_goroce_wills); err != nil {
		return nil, -1, err
	}
	held, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	defer unix.Close(held)
	if err := unix.Flock(held, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, -1, err
	}
	mem, err := unix.Mmap(held, 0, firstWillsMap, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, -1, err
	}
	// Children would keep the lock.
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		_ = unix.Munmap(mem)
		return nil, -1, err
	}
	return &willFile{mem: mem, places: map[willKey]uint32{}}, fd, nil
}

// at returns a will in the mapping.
func (f *willFile) at(place uint32) *C.struct_goroce_will {
	return (*C.struct_goroce_will)(unsafe.Pointer(&f.mem[willsHeader+int(place)*willBytes]))
}

// place finds room for one more. f.mu is held.
func (f *willFile) place() (place uint32, ok bool) {
	if n := len(f.free); n > 0 {
		place = f.free[n-1]
		f.free = f.free[:n-1]
		return place, true
	}
	if f.used == C.GOROCE_MAX_WILLS {
		return 0, false
	}
	if need := willsHeader + int(f.used+1)*willBytes; need > len(f.mem) {
		mem, err := unix.Mremap(f.mem, min(2*len(f.mem), int(C.sizeof_struct_goroce_wills)), unix.MREMAP_MAYMOVE)
		if err != nil {
			return 0, false
		}
		f.mem = mem
	}
	f.used++
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&f.mem[0])), f.used)
	return f.used - 1, true
}

// put stores a will. A connection beyond the limit has none.
func (w *deviceWills) put(id uint32, src, dst netip.Addr, packet []byte) {
	f := w.file
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.place()
	if !ok {
		return
	}
	f.places[willKey{w.device, id}] = p
	t := f.at(p)
	a, b := src.As16(), dst.As16()
	copy(unsafe.Slice((*byte)(&t.src[0]), len(a)), a[:])
	copy(unsafe.Slice((*byte)(&t.dst[0]), len(b)), b[:])
	copy(unsafe.Slice((*byte)(&t.packet[0]), len(packet)), packet)
	t.scope = C.uint32_t(scopeOf(src))
	atomic.StoreUint32((*uint32)(&t.live), 1) // the rest is there before, whenever the process ends
}

// drop is Drop of it.
func (w *deviceWills) drop(id uint32) {
	f := w.file
	f.mu.Lock()
	defer f.mu.Unlock()
	k := willKey{w.device, id}
	p, ok := f.places[k]
	if !ok {
		return
	}
	delete(f.places, k)
	atomic.StoreUint32((*uint32)(&f.at(p).live), 0)
	f.free = append(f.free, p)
}

// scopeOf returns the interface of a link-local address; 0 for others.
func scopeOf(a netip.Addr) int {
	if !a.Is6() || !a.IsLinkLocalUnicast() {
		return 0
	}
	all, _ := net.Interfaces() // without them it is not known
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, o := range addrs {
			if n, ok := o.(*net.IPNet); ok {
				if b, ok := netip.AddrFromSlice(n.IP); ok && b == a {
					return i.Index
				}
			}
		}
	}
	return 0
}
