package transport_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Rule 15 and IBTA 9.7.5.2.4: which NAK for which mistake.
func TestRuleNAKClasses(t *testing.T) {
	readOnly := func(d *puppet) *mem.Region {
		r, err := d.a.mem.Register(d.a.pd, mem.RegionAttr{Bytes: make([]byte, 4096), Access: mem.RemoteRead})
		require.NoError(t, err)
		return r
	}
	foreign := func(d *puppet) *mem.Region {
		pd, err := d.a.mem.AllocPD()
		require.NoError(t, err)
		r, err := d.a.mem.Register(pd, mem.RegionAttr{Bytes: make([]byte, 4096), Access: allAccess})
		require.NoError(t, err)
		return r
	}
	writeTo := func(r func(*puppet) *mem.Region, off uint64, n int) func(d *puppet) {
		return func(d *puppet) {
			reg := r(d)
			d.send(ib.RCWriteOnly, 0, make([]byte, n), reth(reg.IOVA()+off, reg.RKey(), uint32(n)))
		}
	}
	own := func(d *puppet) *mem.Region { return d.a.region }
	atomic := func(off uint64, op ib.Opcode) func(d *puppet) {
		return func(d *puppet) { d.send(op, 0, nil, func(p *ib.Packet) { p.Atomic.VA += off }) }
	}
	const (
		invalid = "a> ACKNOWLEDGE 0 NAK invalid request msn=0"
		access  = "a> ACKNOWLEDGE 0 NAK remote access error msn=0"
	)
	for _, tc := range []struct {
		name string
		do   func(d *puppet)
		want string
		ev   transport.EventType
	}{
		{"MIDDLE without FIRST", func(d *puppet) { d.send(ib.RCSendMiddle, 0, make([]byte, 1024)) }, invalid,
			transport.EventQPRequestError},
		{"LAST without FIRST", func(d *puppet) { d.send(ib.RCWriteLast, 0, make([]byte, 8)) }, invalid,
			transport.EventQPRequestError},
		{"ONLY above the MTU", func(d *puppet) { d.send(ib.RCWriteOnly, 0, make([]byte, 1028)) }, invalid,
			transport.EventQPRequestError},
		{"ONLY shorter than its RETH", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, d.a.region.RKey(), 9))
		}, invalid, transport.EventQPRequestError},
		{"ONLY longer than its RETH", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, d.a.region.RKey(), 7))
		}, invalid, transport.EventQPRequestError},
		{"RETH above 2^31", func(d *puppet) {
			d.send(ib.RCWriteFirst, 0, make([]byte, 1024), reth(d.a.base, d.a.region.RKey(), 1<<31+1))
		}, invalid, transport.EventQPRequestError},
		{"READ above 2^31", func(d *puppet) { d.readReq(0, 0, 1<<31+1) }, invalid, transport.EventQPRequestError},
		{"READ with a payload", func(d *puppet) {
			d.send(ib.RCReadRequest, 0, make([]byte, 4), reth(d.a.base, d.a.region.RKey(), 4))
		}, invalid, transport.EventQPRequestError},
		{"misaligned atomic", atomic(4, ib.RCFetchAdd), invalid, transport.EventQPRequestError},
		{"misaligned ATOMIC WRITE", func(d *puppet) {
			d.send(ib.RCAtomicWrite, 0, make([]byte, 8), reth(d.a.base+4, d.a.region.RKey(), 8))
		}, invalid, transport.EventQPRequestError},
		{"ATOMIC WRITE of 4 bytes", func(d *puppet) {
			d.send(ib.RCAtomicWrite, 0, make([]byte, 4), reth(d.a.base, d.a.region.RKey(), 4))
		}, invalid, transport.EventQPRequestError},
		{"no such key", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, 0x1234, 8))
		}, access, transport.EventQPAccessError},
		{"right not granted", writeTo(readOnly, 0, 8), access, transport.EventQPAccessError},
		{"another PD", writeTo(foreign, 0, 8), access, transport.EventQPAccessError},
		{"past the end", writeTo(own, bufBytes-4, 8), access, transport.EventQPAccessError},
		{"before the start", writeTo(own, ^uint64(0), 8), access, transport.EventQPAccessError},
		{"address wraps", func(d *puppet) {
			d.readReq(0, 0, 8, reth(^uint64(3), d.a.region.RKey(), 8))
		}, access, transport.EventQPAccessError},
		{"length wraps", func(d *puppet) {
			d.readReq(0, 0, 8, reth(^uint64(0)-1<<30, d.a.region.RKey(), 1<<31))
		}, access, transport.EventQPAccessError},
		{"atomic past the end", atomic(bufBytes, ib.RCCompareSwap), access, transport.EventQPAccessError},
		{"payload with RETH length 0", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(0, 0, 0))
		}, invalid, transport.EventQPRequestError},
		{"FLUSH to persistence, which the QP lacks", func(d *puppet) {
			d.send(ib.RCFlush, 0, nil, reth(d.a.base, d.a.region.RKey(), 8),
				func(p *ib.Packet) { p.FETH = ib.FlushPersistence })
		}, invalid, transport.EventQPRequestError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newPuppet(t, pairConfig{}, linkConfig{})
			d.a.recv(1, 0, 64)
			tc.do(d)
			d.want(tc.want)
			d.wantState(transport.StateErr)
			require.NotEqual(t, transport.WCSuccess, d.a.poll()[0].Status)
			d.a.wantEvents(tc.ev)
			require.True(t, bytes.Equal(d.a.buf, make([]byte, bufBytes)), "nothing was written")
		})
	}
}

// Operations that the QP does not allow are invalid requests (wire notes 5.3).
func TestRuleQPAccess(t *testing.T) {
	for _, tc := range []struct {
		name   string
		access mem.Access
		op     ib.Opcode
		data   int
	}{
		{"READ", allAccess &^ (mem.MWBind | mem.RemoteRead), ib.RCReadRequest, 0},
		{"WRITE", allAccess &^ (mem.MWBind | mem.RemoteWrite), ib.RCWriteOnly, 8},
		{"ATOMIC WRITE", allAccess &^ (mem.MWBind | mem.RemoteWrite), ib.RCAtomicWrite, 8},
		{"FETCH ADD", allAccess &^ (mem.MWBind | mem.RemoteAtomic), ib.RCFetchAdd, 0},
		{"COMPARE SWAP", allAccess &^ (mem.MWBind | mem.RemoteAtomic), ib.RCCompareSwap, 0},
		{"FLUSH", allAccess &^ (mem.MWBind | mem.FlushGlobal), ib.RCFlush, 0},
	} {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.Access = tc.access }})
		d.send(tc.op, 0, make([]byte, tc.data), reth(d.a.base, d.a.region.RKey(), 8),
			func(p *ib.Packet) { p.FETH = ib.FlushGlobalVisibility })
		require.Len(t, d.log, 1, tc.name)
		require.Equal(t, ib.NAKInvalidRequest, d.log[0].pkt.AETH.Syndrome, tc.name)
		d.wantState(transport.StateErr)
	}
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxDestRdAtomic = 0 }})
	d.readReq(0, 0, 8)
	d.want("a> ACKNOWLEDGE 0 NAK invalid request msn=0")
}
