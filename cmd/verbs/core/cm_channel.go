package main

/*
#include <rdma/rdma_cma.h>
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// cmChannel is the Go half of an rdma_event_channel. It has a channel of each device that its IDs
// are on, and a descriptor that can be read while one of these has something that goroce_cm_next
// gives to the program: see hold.
type cmChannel struct {
	nextMu sync.Mutex // held from taking an event until it is known whose it is

	mu  sync.Mutex
	on  map[*verbs.Device]*rdmacm.EventChannel
	ids map[*cmID]struct{}

	// fdMu is taken in callbacks, with the lock of a device held.
	fdMu    sync.Mutex
	sources []*rdmacm.EventChannel
	extra   []cmExtra
	fd      int
	set     bool // fd can be read
	told    bool // of ends of connections, one at least need not wait any longer
	looking bool // look runs, or will
	closed  bool
}

// cmExtra is an event that no device has made.
type cmExtra struct {
	id     *cmID
	kind   C.uint32_t
	status C.int32_t
	arg    C.uint64_t
}

var cmChannels table[cmChannel]

//export goroce_cm_create_channel
func goroce_cm_create_channel(fd C.int, handle *C.goroce_handle) C.int {
	c := &cmChannel{fd: int(fd), on: map[*verbs.Device]*rdmacm.EventChannel{}, ids: map[*cmID]struct{}{}}
	*handle = C.goroce_handle(cmChannels.put(c))
	if *handle == 0 {
		return eNOMEM
	}
	return 0
}

//export goroce_cm_destroy_channel
func goroce_cm_destroy_channel(handle C.goroce_handle) C.int {
	c := cmChannels.drop(uint32(handle))
	if c == nil {
		return eINVAL
	}
	c.fdMu.Lock()
	c.closed = true // the descriptor will be somebody else's
	c.fdMu.Unlock()
	c.mu.Lock()
	var ids []*cmID
	for id := range c.ids {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		id.close()
	}
	for _, s := range c.each() {
		core.Open(s).Notify(nil)
		_ = s.Close() // nobody waits on it
	}
	return 0
}

// of returns the channel on a device.
func (c *cmChannel) of(d *verbs.Device) (*rdmacm.EventChannel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.on[d]; s != nil {
		return s, nil
	}
	s, err := rdmacm.CreateEventChannel(d)
	if err != nil {
		return nil, err
	}
	c.on[d] = s
	c.fdMu.Lock()
	c.sources = append(slices.Clip(c.sources), s)
	c.fdMu.Unlock()
	core.Open(s).Notify(c.came)
	return s, nil
}

func (c *cmChannel) each() []*rdmacm.EventChannel {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	return c.sources
}

// came is called when an event has come. Each makes an edge of the descriptor.
func (c *cmChannel) came() {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	if c.ready() {
		c.raise()
	} else {
		c.lookSoon()
	}
}

// update makes the descriptor say whether there are events.
func (c *cmChannel) update() {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.updateLocked()
}

func (c *cmChannel) updateLocked() {
	c.told = false
	if c.ready() {
		if !c.set {
			c.raise()
		}
		return
	}
	if c.set && !c.closed {
		c.set = false
		drain(c.fd)
	}
	c.lookSoon()
}

// ready reports whether there are events that need not wait. fdMu is held.
func (c *cmChannel) ready() bool {
	return len(c.extra) > 0 || slices.ContainsFunc(c.sources, func(s *rdmacm.EventChannel) bool {
		return core.Open(s).Urgent() || c.told && core.Open(s).Pending()
	})
}

// lookSoon has look run if connections have ended. fdMu is held.
func (c *cmChannel) lookSoon() {
	pending := slices.ContainsFunc(c.sources, func(s *rdmacm.EventChannel) bool { return core.Open(s).Pending() })
	if pending && !c.looking && !c.closed {
		c.looking = true
		go c.look()
	}
}

// look makes the descriptor readable when the end of a connection need not wait any longer.
func (c *cmChannel) look() {
	const some = 64 // the others come after these
	waiting := false
	told := slices.ContainsFunc(c.each(), func(s *rdmacm.EventChannel) bool {
		return slices.ContainsFunc(core.Open(s).Ended(some), func(p *rdmacm.ID) bool {
			waiting = true
			id, _ := p.Context.(*cmID)
			return id == nil || id.mayEnd()
		})
	})
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.looking = waiting && !told && !c.closed
	if c.looking {
		time.AfterFunc(lookEvery, c.look)
		return
	}
	if c.told = told; c.ready() {
		c.raise()
	}
}

// raise makes the descriptor readable. fdMu is held.
func (c *cmChannel) raise() {
	if !c.closed {
		c.set = true
		ring(c.fd)
	}
}

//export goroce_cm_drained
func goroce_cm_drained(handle C.goroce_handle) C.int {
	c := cmChannels.get(uint32(handle))
	if c == nil {
		return eINVAL
	}
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.set = false
	c.updateLocked()
	return 0
}

// addExtra adds an event that no device makes.
func (c *cmChannel) addExtra(e cmExtra) {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.extra = append(c.extra, e)
	c.updateLocked()
}

// takeExtras takes those of an ID.
func (c *cmChannel) takeExtras(id *cmID) (of []cmExtra) {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	c.extra = slices.DeleteFunc(c.extra, func(e cmExtra) bool {
		if e.id == id {
			of = append(of, e)
		}
		return e.id == id
	})
	c.updateLocked()
	return of
}

func (c *cmChannel) firstExtra() (e cmExtra, ok bool) {
	c.fdMu.Lock()
	defer c.fdMu.Unlock()
	if len(c.extra) == 0 {
		return e, false
	}
	e = c.extra[0]
	c.extra = slices.Delete(c.extra, 0, 1)
	return e, true
}

// poll takes an event of a device: what frees memory before what takes some.
func (c *cmChannel) poll() *rdmacm.Event {
	all := c.each()
	for _, s := range all {
		if e := core.Open(s).PollEvent(); e != nil {
			return e
		}
	}
	for _, s := range all {
		if e := core.Open(s).PollRequest(); e != nil {
			return e
		}
	}
	return nil
}

//export goroce_cm_next
func goroce_cm_next(handle C.goroce_handle, o *C.struct_goroce_cm_event) C.int {
	c := cmChannels.get(uint32(handle))
	if c == nil {
		return eINVAL
	}
	c.nextMu.Lock()
	defer c.nextMu.Unlock()
	defer c.update()
	for {
		*o = C.struct_goroce_cm_event{}
		if e, ok := c.firstExtra(); ok {
			o.cookie, o._type, o.status, o.arg = C.uint64_t(e.id.cookie.Load()), e.kind, e.status, e.arg
			return 0
		}
		e := c.poll()
		if e == nil {
			return C.int(syscall.EAGAIN)
		}
		if c.translate(e, o) {
			return 0
		}
	}
}

// translate writes an event for the program. It reports false for one that concerns nobody.
func (c *cmChannel) translate(e *rdmacm.Event, o *C.struct_goroce_cm_event) bool {
	id, _ := e.ID.Context.(*cmID)
	o._type = C.uint32_t(e.Type)
	if e.Type == rdmacm.EventConnectRequest {
		if id, _ = e.ListenID.Context.(*cmID); id == nil {
			_ = e.ID.Close() // nobody is there to take it
			return false
		}
		n := id.request(c, e)
		if o.id = C.goroce_handle(cmIDs.put(n)); o.id == 0 {
			n.close()
			return false
		}
	}
	if id == nil {
		return false
	}
	o.cookie = C.uint64_t(id.cookie.Load())
	putConn(&o.conn, &e.Conn)
	switch e.Type {
	case rdmacm.EventConnectResponse, rdmacm.EventEstablished:
		id.nowKnown()
	}
	switch e.Type {
	case rdmacm.EventEstablished, rdmacm.EventMulticastJoin:
		if id.ps == rdmacm.PortSpaceUDP {
			putVector(&o.ah, &e.UD.AV)
			o.conn.qp_num, o.conn.qkey = C.uint32_t(e.UD.QPN), C.uint32_t(e.UD.QKey)
		}
	case rdmacm.EventDisconnected, rdmacm.EventTimewaitExit:
		e.PrivateData = nil // the kernel keeps it to itself
	}
	if e.Type == rdmacm.EventMulticastJoin || e.Type == rdmacm.EventMulticastError {
		cookie, ok := id.groupCookie(e.UD.AV.DGID.Addr())
		if !ok {
			return false // left meanwhile
		}
		o.group = C.uint64_t(cookie)
	}
	o.private_data_len = C.uint32_t(
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&o.private_data)), len(o.private_data)), e.PrivateData))
	o.status = statusOf(e, o)
	return true
}

// statusOf returns the status that the kernel gives an event. A lookup that was refused has another
// type there, too.
func statusOf(e *rdmacm.Event, o *C.struct_goroce_cm_event) C.int32_t {
	var refused *rdmacm.RejectedError
	switch {
	case e.Err == nil, e.Type == rdmacm.EventDisconnected, e.Type == rdmacm.EventDeviceRemoval:
		return 0
	case !errors.As(e.Err, &refused):
		return -C.int32_t(cmErrno(e.Err))
	case refused.SIDRStatus != 0:
		o._type = C.RDMA_CM_EVENT_UNREACHABLE
		return C.int32_t(refused.SIDRStatus)
	}
	return C.int32_t(refused.Reason)
}
