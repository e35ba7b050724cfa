package main

/*
#include <rdma/rdma_cma.h>
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// cmID is the Go half of an rdma_cm_id. Without local address it has no part; one that listens on
// all addresses has a part on each device.
type cmID struct {
	cookie atomic.Uint64 // of the C half
	ps     rdmacm.PortSpace
	uc     bool   // its queue pair is UC
	psn    ib.PSN // that we expect of the peer

	service netip.AddrPort // that it has asked for a connection

	mu        sync.Mutex
	ch        *cmChannel
	parts     []*rdmacm.ID
	apart     netip.AddrPort // without parts: what it is bound to, of a family that no device has
	spoke     bool           // a connection was asked for, by either side
	listening int            // parts that do
	closed    bool
	heldUntil time.Time             // no longer does its end wait: see cm_hold.go
	groups    map[netip.Addr]uint64 // cookies of those that were joined

	// Options, which are those of parts that are still to be made.
	reuse, onlyV6 bool
	tos           uint8
	ackTimeout    ib.TimeoutCode
}

var cmIDs table[cmID]

// newPSN returns a starting PSN that nobody can guess.
func newPSN() ib.PSN {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return ib.PSN(binary.NativeEndian.Uint32(b[:])) & ib.PSNMask
}

//export goroce_cm_create_id
func goroce_cm_create_id(channel C.goroce_handle, ps, kind C.uint32_t, cookie C.uint64_t,
	handle *C.goroce_handle) C.int {
	c := cmChannels.get(uint32(channel))
	if c == nil {
		return eINVAL
	}
	id := &cmID{ch: c, psn: newPSN(), uc: kind == C.IBV_QPT_UC}
	switch ps {
	case C.RDMA_PS_TCP:
		id.ps = rdmacm.PortSpaceTCP
	case C.RDMA_PS_UDP, C.RDMA_PS_IPOIB: // IPoIB has no Q_Key of its own on RoCE
		id.ps = rdmacm.PortSpaceUDP
	case C.RDMA_PS_IB:
		id.ps = rdmacm.PortSpaceIB
		if kind == C.IBV_QPT_UD {
			return C.int(syscall.EPROTONOSUPPORT)
		}
	default:
		return eINVAL
	}
	if (id.ps == rdmacm.PortSpaceUDP) != (kind == C.IBV_QPT_UD) ||
		kind != C.IBV_QPT_UD && kind != C.IBV_QPT_RC && kind != C.IBV_QPT_UC {
		return eINVAL
	}
	id.cookie.Store(uint64(cookie))
	if *handle = C.goroce_handle(cmIDs.put(id)); *handle == 0 {
		return eNOMEM
	}
	c.mu.Lock()
	c.ids[id] = struct{}{}
	c.mu.Unlock()
	return 0
}

// request makes the ID of a connection request. nextMu is held.
func (id *cmID) request(c *cmChannel, e *rdmacm.Event) *cmID {
	n := &cmID{ps: id.ps, uc: e.Conn.UC, psn: newPSN(), ch: c, parts: []*rdmacm.ID{e.ID}, spoke: true}
	e.ID.Context = n
	c.mu.Lock()
	c.ids[n] = struct{}{}
	c.mu.Unlock()
	return n
}

//export goroce_cm_adopt
func goroce_cm_adopt(handle C.goroce_handle, cookie C.uint64_t) C.int {
	id := cmIDs.get(uint32(handle))
	if id == nil {
		return eINVAL
	}
	id.cookie.Store(uint64(cookie))
	return 0
}

//export goroce_cm_destroy_id
func goroce_cm_destroy_id(handle C.goroce_handle) C.int {
	id := cmIDs.drop(uint32(handle))
	if id == nil {
		return eINVAL
	}
	id.close()
	return 0
}

func (id *cmID) close() {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return
	}
	id.closed = true
	id.dropParts(nil)
	id.leaveApart()
	id.ch.mu.Lock()
	delete(id.ch.ids, id)
	id.ch.mu.Unlock()
	id.ch.takeExtras(id) // which also looks what is left
}

// dropParts ends all parts but one. id.mu is held.
func (id *cmID) dropParts(keep *rdmacm.ID) {
	for _, p := range id.parts {
		if p != keep {
			_ = p.Close() // whose device may be closed
		}
	}
	id.parts = slices.DeleteFunc(id.parts, func(p *rdmacm.ID) bool { return p != keep })
}

// with runs f for the ID of a handle.
func withID(handle C.goroce_handle, f func(id *cmID) C.int) C.int {
	id := cmIDs.get(uint32(handle))
	if id == nil {
		return eINVAL
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return eINVAL
	}
	return f(id)
}

// withPart runs f for the one part of an ID.
func withPart(handle C.goroce_handle, f func(id *cmID, p *rdmacm.ID) C.int) C.int {
	return withID(handle, func(id *cmID) C.int {
		if len(id.parts) != 1 {
			return eINVAL
		}
		return f(id, id.parts[0])
	})
}

// add makes a part on a device. id.mu is held.
func (id *cmID) add(d *verbs.Device) (*rdmacm.ID, error) {
	ch, err := id.ch.of(d)
	if err != nil {
		return nil, err
	}
	p, err := rdmacm.CreateID(ch, id.ps)
	if err != nil {
		return nil, err
	}
	p.Context = id
	err = core.Open(p).SetReuseAddr(id.reuse)
	if err == nil && id.tos != 0 {
		err = p.SetTypeOfService(id.tos)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	id.parts = append(id.parts, p)
	return p, nil
}

//export goroce_cm_migrate_id
func goroce_cm_migrate_id(handle, channel C.goroce_handle) C.int {
	to := cmChannels.get(uint32(channel))
	if to == nil {
		return eINVAL
	}
	return withID(handle, func(id *cmID) C.int {
		from := id.ch
		if from == to {
			return 0
		}
		for _, p := range id.parts {
			s, err := to.of(p.Device())
			if err == nil {
				err = p.Migrate(s)
			}
			if err != nil {
				return cmErrno(err)
			}
		}
		from.mu.Lock()
		delete(from.ids, id)
		from.mu.Unlock()
		to.mu.Lock()
		to.ids[id] = struct{}{}
		to.mu.Unlock()
		id.ch = to
		for _, e := range from.takeExtras(id) {
			to.addExtra(e)
		}
		to.update()
		return 0
	})
}

//export goroce_cm_write_event
func goroce_cm_write_event(handle C.goroce_handle, kind C.uint32_t, status C.int32_t, arg C.uint64_t) C.int {
	return withID(handle, func(id *cmID) C.int {
		id.ch.addExtra(cmExtra{id: id, kind: kind, status: status, arg: arg})
		return 0
	})
}

//export goroce_cm_query_id
func goroce_cm_query_id(handle C.goroce_handle, r *C.struct_goroce_cm_route) C.int {
	*r = C.struct_goroce_cm_route{device: -1}
	return withID(handle, func(id *cmID) C.int {
		if len(id.parts) == 0 {
			putAddr(&r.src, id.apart)
			return 0
		}
		p := id.parts[0]
		local, remote := p.LocalAddr(), p.RemoteAddr()
		putAddr(&r.src, local)
		putAddr(&r.dst, remote)
		if local.Addr().IsUnspecified() {
			return 0
		}
		r.device = C.int32_t(cmDeviceNumber(p.Device()))
		r.traffic_class, r.mtu = C.uint8_t(id.tos), C.uint8_t(p.Device().Port().ActiveMTU)
		*(*ib.GID)(unsafe.Pointer(&r.sgid)) = ib.GIDFromAddr(local.Addr())
		if remote.IsValid() {
			*(*ib.GID)(unsafe.Pointer(&r.dgid)) = ib.GIDFromAddr(remote.Addr())
		}
		return 0
	})
}

//export goroce_cm_bind_addr
func goroce_cm_bind_addr(handle C.goroce_handle, sa *C.struct_sockaddr) C.int {
	a := addrOf(sa)
	return withID(handle, func(id *cmID) C.int {
		local := localAddr(a, id.onlyV6)
		return bindErrno(a, local, id.bind(local))
	})
}

// bind gives an ID without parts a local address. id.mu is held.
func (id *cmID) bind(a netip.AddrPort) C.int {
	if len(id.parts) > 0 || id.apart.IsValid() || !a.Addr().IsValid() {
		return eINVAL
	}
	if a.Addr().IsUnspecified() {
		return id.bindAll(a)
	}
	d := deviceAt(a.Addr())
	if d == nil {
		return noDeviceErrno(a.Addr())
	}
	return id.bindOn(d, a)
}

func (id *cmID) bindOn(d *verbs.Device, a netip.AddrPort) C.int {
	p, err := id.add(d)
	if err == nil {
		err = p.BindAddr(a)
	}
	if err != nil {
		id.dropParts(nil)
	}
	return cmErrno(err)
}

// bindAll binds to one port of all devices. A port that one device has chosen can be taken on
// another.
func (id *cmID) bindAll(a netip.AddrPort) C.int {
	const tries = 32
	if !slices.ContainsFunc(cmAll(), func(d *verbs.Device) bool { return id.listensOn(d, a.Addr()) }) {
		return id.bindApart(a)
	}
	var e C.int
	for range tries {
		port := a.Port()
		for _, d := range cmAll() {
			if !id.listensOn(d, a.Addr()) {
				continue
			}
			p, err := id.add(d)
			if err == nil {
				err = p.BindAddr(netip.AddrPortFrom(a.Addr(), port))
			}
			if e = cmErrno(err); e != 0 {
				id.dropParts(nil)
				break
			}
			port = p.LocalAddr().Port()
		}
		if a.Port() != 0 || e != C.int(syscall.EADDRINUSE) {
			break
		}
	}
	return e
}

// listensOn reports whether an unspecified address stands for an address of a device. That of IPv6
// stands for all, unless the program does not want that.
func (id *cmID) listensOn(d *verbs.Device, any netip.Addr) bool {
	if any.Is6() && !id.onlyV6 {
		return true
	}
	return slices.ContainsFunc(d.Addrs(), func(a netip.Addr) bool { return a.Is4() == any.Is4() })
}

//export goroce_cm_resolve_addr
func goroce_cm_resolve_addr(handle C.goroce_handle, from, to *C.struct_sockaddr) C.int {
	src, dst := localAddr(addrOf(from), false), peerAddr(addrOf(to))
	return withID(handle, func(id *cmID) C.int { return id.resolve(src, dst) })
}

// resolve finds the way to a peer. What is wrong with the peer's address is told by an event, as by
// the kernel, which looks for it in the background; what is wrong with ours at once.
func (id *cmID) resolve(src, dst netip.AddrPort) C.int {
	var p *rdmacm.ID
	if id.apart.IsValid() { // no device leads from there to anywhere
		id.ch.addExtra(cmExtra{id: id, kind: C.RDMA_CM_EVENT_ADDR_ERROR, status: -C.int32_t(syscall.ENETUNREACH)})
		return 0
	}
	if len(id.parts) == 0 {
		if src.IsValid() && !src.Addr().IsUnspecified() && deviceAt(src.Addr()) == nil {
			return noDeviceErrno(src.Addr())
		}
		d := deviceTo(src.Addr(), dst.Addr())
		if d == nil {
			id.ch.addExtra(cmExtra{id: id, kind: C.RDMA_CM_EVENT_ADDR_ERROR, status: -C.int32_t(syscall.ENETUNREACH)})
			return 0
		}
		var err error
		if p, err = id.add(d); err != nil {
			return cmErrno(err)
		}
	} else {
		p = id.parts[0]
		if local := p.LocalAddr().Addr(); len(id.parts) > 1 && local.IsUnspecified() {
			d := deviceTo(src.Addr(), dst.Addr())
			i := slices.IndexFunc(id.parts, func(o *rdmacm.ID) bool { return o.Device() == d })
			if i < 0 {
				return eINVAL
			}
			p = id.parts[i]
		}
	}
	err := p.ResolveAddr(src, dst)
	var state *rdmacm.IDStateError
	switch {
	case err == nil:
		id.dropParts(p)
		return 0
	case errors.As(err, &state), errors.Is(err, verbs.ErrAddrInUse), errors.Is(err, verbs.ErrAddrNotLocal),
		errors.Is(err, verbs.ErrClosed):
		return cmErrno(err)
	}
	if !p.LocalAddr().IsValid() {
		id.dropParts(nil) // as before the attempt
	}
	id.ch.addExtra(cmExtra{id: id, kind: C.RDMA_CM_EVENT_ADDR_ERROR, status: -C.int32_t(cmErrno(err))})
	return 0
}

//export goroce_cm_resolve_route
func goroce_cm_resolve_route(handle C.goroce_handle) C.int {
	return withPart(handle, func(_ *cmID, p *rdmacm.ID) C.int { return cmErrno(p.ResolveRoute()) })
}

//export goroce_cm_listen_id
func goroce_cm_listen_id(handle C.goroce_handle, backlog, parent C.int) C.int {
	return withID(handle, func(id *cmID) C.int {
		if len(id.parts) == 0 && !id.apart.IsValid() {
			if e := id.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); e != 0 {
				return e
			}
		}
		err := id.listen(max(int(backlog), 0))
		if parent >= 0 && errors.Is(err, verbs.ErrAddrInUse) {
			go whenGone(int(parent), func() bool {
				id.mu.Lock()
				defer id.mu.Unlock()
				return id.closed || !errors.Is(id.listen(max(int(backlog), 0)), verbs.ErrAddrInUse)
			})
			return 0
		}
		return cmErrno(err)
	})
}

// listen has the parts listen that do not yet. id.mu is held.
func (id *cmID) listen(backlog int) error {
	for ; id.listening < len(id.parts); id.listening++ {
		p := id.parts[id.listening]
		if err := p.Listen(rdmacm.ListenLimits{Backlog: backlog}); err != nil {
			return err
		}
		remark("listening on %v", p.LocalAddr())
	}
	return nil
}

//export goroce_cm_set_option
func goroce_cm_set_option(handle C.goroce_handle, level, name C.int, value unsafe.Pointer, n C.size_t) C.int {
	b := unsafe.Slice((*byte)(value), int(n))
	return withID(handle, func(id *cmID) C.int { return id.setOption(level, name, b) })
}

// setOption sets an option. Those of the address count only before there is one.
func (id *cmID) setOption(level, name C.int, b []byte) C.int {
	if level == C.RDMA_OPTION_IB && name == C.RDMA_OPTION_IB_PATH {
		return eOPNOTSUPP // RoCE has no paths to choose from
	}
	if level != C.RDMA_OPTION_ID || name < 0 || name > C.RDMA_OPTION_ID_ACK_TIMEOUT {
		return C.int(syscall.ENOSYS)
	}
	size := 1
	if name == C.RDMA_OPTION_ID_REUSEADDR || name == C.RDMA_OPTION_ID_AFONLY {
		size = 4
	}
	if len(b) != size {
		return eINVAL
	}
	switch name {
	case C.RDMA_OPTION_ID_TOS:
		id.tos = b[0]
		for _, p := range id.parts {
			if err := p.SetTypeOfService(id.tos); err != nil {
				return cmErrno(err)
			}
		}
	case C.RDMA_OPTION_ID_ACK_TIMEOUT:
		if b[0] == 0 || b[0] > 31 || id.ps == rdmacm.PortSpaceUDP {
			return eINVAL
		}
		id.ackTimeout = ib.TimeoutCode(b[0])
	default:
		if len(id.parts) > 0 || id.apart.IsValid() {
			return eINVAL
		}
		on := binary.NativeEndian.Uint32(b) != 0
		if name == C.RDMA_OPTION_ID_REUSEADDR {
			id.reuse = on
		} else {
			id.onlyV6 = on
		}
	}
	return 0
}
