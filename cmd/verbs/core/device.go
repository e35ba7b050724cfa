package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/stat"
	"github.com/goroce/goroce/roce/verbs"
)

// deviceKey is what a device is opened with. Contexts of the same key share a device.
type deviceKey struct {
	addr    netip.Addr
	link    string
	polling bool
}

// openDevice is a device with the contexts that share it.
type openDevice struct {
	stat *stat.Server // nil: nobody has asked for one
	*verbs.Device
	key      deviceKey
	contexts map[*userContext]struct{} // under devices.mu
}

// devices are those that are open.
var devices = struct {
	mu   sync.Mutex
	open map[deviceKey]*openDevice
}{open: map[deviceKey]*openDevice{}}

// userContext is the Go half of an ibv_context.
type userContext struct {
	*openDevice
	cookie C.uint64_t
	async  asyncQueue
	stage  stage
}

var contexts table[userContext]

//export goroce_open
func goroce_open(o *C.struct_goroce_open, handle *C.goroce_handle) C.int {
	addr, err := netip.ParseAddr(C.GoString(o.addr))
	if err != nil {
		say("%q is not an address: set GOROCE_ADDR to addresses of this machine", C.GoString(o.addr))
		return eINVAL
	}
	key := deviceKey{addr: addr, link: "udp", polling: o.polling != 0}
	if o.link != nil {
		key.link = C.GoString(o.link)
	}
	devices.mu.Lock()
	defer devices.mu.Unlock()
	d := devices.open[key]
	if d == nil {
		v, err := aboveLow(func() (*verbs.Device, error) { return openKey(key) })
		if err != nil {
			say("cannot open a device on %v: %v", addr, err)
			return openErrno(err)
		}
		d = &openDevice{Device: v, key: key, contexts: map[*userContext]struct{}{}}
		if err := core.Open(d).OnAsyncEvent(d.deliver); err != nil {
			return errno(err)
		}
		d.serveStat()
		devices.open[key] = d
	}
	c := &userContext{openDevice: d, cookie: o.cookie, async: newAsyncQueue(int(o.async_fd))}
	d.contexts[c] = struct{}{}
	*handle = C.goroce_handle(contexts.put(c))
	return full(*handle)
}

// openKey opens a device. Its requests are patient: the peer may be a program of this kind, too,
// whose threads can be without a CPU for longer than seven times the 67 ms that most programs ask
// for.
func openKey(k deviceKey) (*verbs.Device, error) {
	cfg := verbs.Config{Addrs: []netip.Addr{k.addr}, Polling: k.polling, Shards: vectors}
	cfg.Tuning.PatientRetries = true
	var l link.Link
	var err error
	switch k.link {
	case "udp":
		return verbs.Open(cfg)
	case "packet":
		l, err = packet.Open(packet.Options{Addrs: cfg.Addrs})
	case "xdp":
		l, err = xdp.Open(xdp.Options{Addrs: cfg.Addrs})
	default:
		err = fmt.Errorf("there is no link %q: GOROCE_LINK is udp, packet or xdp", k.link)
	}
	if err != nil {
		return nil, err
	}
	cfg.Link = l
	return verbs.Open(cfg)
}

// openErrno is errno for a device that cannot be opened: ENODEV where nothing else is known, as for
// a device that has gone.
func openErrno(err error) C.int {
	if e := errno(err); e != eINVAL {
		return e
	}
	return C.int(syscall.ENODEV)
}

// say writes one line for the user of the program.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "goroce: "+format+"\n", args...) }

//export goroce_close
func goroce_close(handle C.goroce_handle) C.int {
	c := contexts.drop(uint32(handle))
	if c == nil {
		return eINVAL
	}
	c.stage.end()
	devices.mu.Lock()
	defer devices.mu.Unlock()
	delete(c.contexts, c)
	if len(c.contexts) > 0 {
		return 0
	}
	delete(devices.open, c.key)
	if c.stat != nil {
		_ = c.stat.Close() // nobody is told any more
	}
	return errno(c.Close())
}

// serveStat lets "roce stat" see the device, if GOROCE_STAT=1 asks for that. A program does not
// fail for want of it.
func (d *openDevice) serveStat() {
	if os.Getenv("GOROCE_STAT") != "1" {
		return
	}
	var err error
	if d.stat, err = stat.Serve(d.Device); err != nil {
		say("\"roce stat\" will not see this program: %v", err)
	}
}

//export goroce_query
func goroce_query(handle C.goroce_handle, o *C.struct_goroce_attr) C.int {
	c := contexts.get(uint32(handle))
	if c == nil {
		return eINVAL
	}
	a, p := c.Attr(), c.Port()
	*o = C.struct_goroce_attr{
		guid: C.uint64_t(a.NodeGUID), max_mr_bytes: C.uint64_t(a.MaxMRBytes), vendor_id: C.uint32_t(a.VendorID),
		max_qp: C.int32_t(a.MaxQP), max_qp_wr: C.int32_t(a.MaxQPWR), max_sge: C.int32_t(a.MaxSGE),
		max_sge_rd: C.int32_t(a.MaxSGERead), max_inline: C.int32_t(a.MaxInline),
		max_cq: C.int32_t(a.MaxCQ), max_cqe: C.int32_t(a.MaxCQE), max_mr: C.int32_t(a.MaxMR),
		max_mw: C.int32_t(a.MaxMW), max_pd: C.int32_t(a.MaxPD), max_qp_rd_atom: C.int32_t(a.MaxQPRdAtomic),
		max_qp_init_rd_atom: C.int32_t(a.MaxQPInitAtomic), max_ah: C.int32_t(a.MaxAH), max_srq: C.int32_t(a.MaxSRQ),
		max_srq_wr: C.int32_t(a.MaxSRQWR), max_srq_sge: C.int32_t(a.MaxSRQSGE),
		ack_delay: C.int32_t(a.LocalCAAckDelay), comp_vectors: C.int32_t(a.CompletionVectors),
		atomic_cap: C.int32_t(a.AtomicCap), max_msg: C.uint32_t(a.MaxMsgBytes), max_mtu: C.int32_t(p.MaxMTU),
		active_mtu: C.int32_t(p.ActiveMTU),
	}
	if p.Active {
		o.active = 1
	}
	for i := range min(len(a.FirmwareVersion), len(o.fw_ver)-1) {
		o.fw_ver[i] = C.char(a.FirmwareVersion[i])
	}
	*(*verbs.GID)(unsafe.Pointer(&o.gid)) = c.GIDs()[0]
	return 0
}
