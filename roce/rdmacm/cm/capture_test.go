package cm

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// captured is a datagram between two kernels' QP 1 (rdma_rxe, librdmacm's tools).
type captured struct {
	src, dst netip.Addr
	h        mad.Header
	data     *mad.Data
	raw      []byte
}

// readCapture returns the datagrams to QP 1 in a pcap file.
func readCapture(t *testing.T, file string) (out []captured) {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	for b = b[24:]; len(b) > 16; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		ip := b[16+14 : 16+n]
		b = b[16+n:]
		var c captured
		var udp []byte
		switch {
		case ip[0] == 0x45 && ip[9] == 17:
			c.src, c.dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
			udp = ip[20:binary.BigEndian.Uint16(ip[2:])]
		case ip[0]>>4 == 6 && ip[6] == 17:
			c.src, c.dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
			udp = ip[40 : 40+binary.BigEndian.Uint16(ip[4:])]
		default:
			continue
		}
		if binary.BigEndian.Uint16(udp[2:]) != ib.UDPPort {
			continue
		}
		var p ib.Packet
		require.Equal(t, ib.DecodeOK, p.Decode(udp[8:]))
		if p.DestQP != ib.QPNGSI {
			continue
		}
		c.raw = p.Payload
		var e mad.Error
		c.data, e = mad.Parse(p.Payload, &c.h)
		require.Equal(t, mad.OK, e)
		out = append(out, c)
	}
	return out
}

// given is a source of random numbers that gives the ones it is told.
type given []uint64

func (g *given) Read(b []byte) (int, error) {
	binary.BigEndian.PutUint64(b, (*g)[0])
	*g = (*g)[1:]
	return len(b), nil
}

// TestAgainstCaptures plays each end of captured connections: given the same
// numbers and parameters, we send the same bytes as Linux, but for the times that a REQ says the CM
// takes, which are our own.
func TestAgainstCaptures(t *testing.T) {
	files, _ := filepath.Glob("../../../ib/testdata/captures/*.pcap")
	tested := 0
	for _, file := range files {
		all := readCapture(t, file)
		byType := map[mad.Attribute]*captured{}
		for i := range all {
			// Those of the first connection only.
			id := string(all[i].data[:4])
			if req := byType[mad.AttrREQ]; req != nil && id != string(req.data[:4]) &&
				string(all[i].data[4:8]) != string(req.data[:4]) {
				continue
			}
			if byType[all[i].h.Attribute] == nil {
				byType[all[i].h.Attribute] = &all[i]
			}
		}
		if byType[mad.AttrREQ] == nil || byType[mad.AttrREP] == nil || byType[mad.AttrRTU] == nil {
			continue
		}
		tested++
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Run("active", func(t *testing.T) { playActive(t, byType) })
			t.Run("passive", func(t *testing.T) { playPassive(t, byType) })
		})
	}
	require.GreaterOrEqual(t, tested, 5)
}

func playActive(t *testing.T, m map[mad.Attribute]*captured) {
	var req mad.REQ
	c := m[mad.AttrREQ]
	req.Decode(c.data)
	random := &given{uint64(c.h.TID), uint64(req.LocalCommID), 1}
	a, err := New(Config{GUID: req.CAGUID, Addrs: []netip.Addr{c.src}, Rand: random})
	require.NoError(t, err)
	conn, err := a.Connect(0, Request{
		Local: c.src, Remote: c.dst, Service: req.ServiceID, QPN: req.QPN, QKey: req.QKey, StartingPSN: req.StartingPSN,
		ResponderResources: req.ResponderResources, InitiatorDepth: req.InitiatorDepth, FlowControl: req.FlowControl,
		RetryCount: req.RetryCount, RNRRetryCount: req.RNRRetryCount, SRQ: req.SRQ, MTU: req.MTU,
		AckTimeout: req.Primary.AckTimeout, FlowLabel: req.Primary.FlowLabel, TrafficClass: req.Primary.TrafficClass,
		HopLimit: req.Primary.HopLimit, Private: req.Private,
	}, nil)
	require.NoError(t, err)
	p := poll(t, a)
	p.Data[mad.HeaderBytes+47] = p.Data[mad.HeaderBytes+47]&7 | byte(req.LocalCMTimeout)<<3
	require.Equal(t, c.raw, p.Data[:], "REQ")

	rep := m[mad.AttrREP]
	a.HandleMAD(1, rep.src, rep.dst, rep.raw)
	e, ok := a.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventReply, e.Type)
	require.NoError(t, conn.Ready(2, nil))
	require.Equal(t, m[mad.AttrRTU].raw, poll(t, a).Data[:], "RTU")
	endOf(t, a, conn, m, c.src)
}

func playPassive(t *testing.T, m map[mad.Attribute]*captured) {
	c := m[mad.AttrREP]
	var rep mad.REP
	rep.Decode(c.data)
	a, err := New(Config{GUID: rep.CAGUID, Addrs: []netip.Addr{c.src}, Rand: &given{uint64(rep.LocalCommID), 1}})
	require.NoError(t, err)
	var req mad.REQ
	req.Decode(m[mad.AttrREQ].data)
	_, err = a.Listen(req.ServiceID, netip.Addr{}, 0)
	require.NoError(t, err)
	a.HandleMAD(1, c.dst, c.src, m[mad.AttrREQ].raw)
	e, ok := a.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventRequest, e.Type)
	require.Equal(t, c.src, e.CMA.Dst)
	require.Equal(t, c.dst, e.CMA.Src)
	require.Equal(t, req.Private[mad.CMAHeaderBytes:], e.Private)
	require.NoError(t, e.Conn.Accept(2, Accept{
		QPN: rep.QPN, QKey: rep.QKey, StartingPSN: rep.StartingPSN, ResponderResources: rep.ResponderResources,
		InitiatorDepth: rep.InitiatorDepth, TargetAckDelay: rep.TargetAckDelay, FlowControl: rep.FlowControl,
		RNRRetryCount: rep.RNRRetryCount, SRQ: rep.SRQ, Private: rep.Private,
	}))
	require.Equal(t, c.raw, poll(t, a).Data[:], "REP")
	a.HandleMAD(3, c.dst, c.src, m[mad.AttrRTU].raw)
	ev, ok := a.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventEstablished, ev.Type)
	endOf(t, a, e.Conn, m, c.src)
}

// endOf plays the end that was captured: the DREQ of this side, or the answer to that of the other.
func endOf(t *testing.T, a *Agent, conn *Conn, m map[mad.Attribute]*captured, self netip.Addr) {
	dreq, drep := m[mad.AttrDREQ], m[mad.AttrDREP]
	if dreq == nil || drep == nil {
		return
	}
	if dreq.src == self {
		*(a.cfg.Rand.(*given)) = given{uint64(dreq.h.TID)}
		require.NoError(t, conn.Disconnect(4, nil))
		require.Equal(t, dreq.raw, poll(t, a).Data[:], "DREQ")
		if drep.dst == self {
			a.HandleMAD(5, drep.src, drep.dst, drep.raw)
		}
	} else {
		a.HandleMAD(4, dreq.src, dreq.dst, dreq.raw)
		if drep.src == self && drep.h.TID == dreq.h.TID {
			require.Equal(t, drep.raw, poll(t, a).Data[:], "DREP")
		}
	}
	e, ok := a.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventDisconnected, e.Type)
	require.Equal(t, Timewait, conn.State())
}

func poll(t *testing.T, a *Agent) *Packet {
	t.Helper()
	var p Packet
	require.True(t, a.PollTransmit(&p))
	return &p
}
