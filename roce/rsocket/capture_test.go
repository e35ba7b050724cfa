package rsocket

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// captured is a packet of the capture.
type captured struct {
	frame int
	from  netip.Addr
	p     ib.Packet
}

// rstreamCapture returns the packets of "rstream -S 3000 -C 5 -I 2", 10.77.0.2
// to the server 10.77.0.3, both librdmacm on rdma_rxe.
func rstreamCapture(t *testing.T) (out []captured) {
	b, err := os.ReadFile("../../ib/testdata/captures/rstream.pcap")
	require.NoError(t, err)
	const fileHeader, recordHeader, ether, ipv4, udp = 24, 16, 14, 20, 8
	b = b[fileHeader:]
	for frame := 1; len(b) > recordHeader; frame++ {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		ip := b[recordHeader+ether : recordHeader+n]
		b = b[recordHeader+n:]
		require.EqualValues(t, 0x45, ip[0])
		ip = ip[:binary.BigEndian.Uint16(ip[2:])]
		c := captured{frame: frame, from: netip.AddrFrom4([4]byte(ip[12:]))}
		require.Equal(t, ib.DecodeOK, c.p.Decode(ip[ipv4+udp:]))
		out = append(out, c)
	}
	return out
}

// script is what one side's program writes, and what its stream should make of it.
type script struct {
	s    stream
	list []byte
	me   connData
	left []int // sizes of the Writes to come
	ramp int
}

// Streams that are given what the two programs did produce, message by
// message, what librdmacm did, and understand what they were sent.
func TestCapture(t *testing.T) {
	packets := rstreamCapture(t)
	client, server := netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3")
	sides := map[netip.Addr]*script{}
	for _, c := range packets {
		if c.p.DestQP != ib.QPNGSI {
			continue
		}
		var h mad.Header
		data, merr := mad.Parse(c.p.Payload, &h)
		require.Zero(t, merr)
		var private []byte
		switch h.Attribute {
		case mad.AttrREQ:
			var m mad.REQ
			m.Decode(data)
			private = m.Private[mad.CMAHeaderBytes:]
		case mad.AttrREP:
			var m mad.REP
			m.Decode(data)
			private = m.Private
		default:
			continue
		}
		d, err := parseConnData(private)
		require.NoError(t, err)
		var again [connDataBytes]byte
		d.put(&again)
		require.Equal(t, private[:connDataBytes], again[:])
		sides[c.from] = &script{me: d, ramp: firstTransfer}
	}
	require.Len(t, sides, 2)
	for a, s := range sides {
		peer := sides[client]
		if a == client {
			peer = sides[server]
		}
		cfg := Config{
			SendBuffer: 1 << 20, RecvBuffer: int(s.me.data.length) * 2, RecvQueue: int(s.me.credits),
			IOMaps: s.me.iomaps,
		}.normal().stream()
		s.s.init(cfg, peer.me, place{smallBuffer, s.me.data.addr, s.me.data.key, int(s.me.data.length)})
		s.list = make([]byte, grants*sgeBytes+s.me.iomaps*iomapBytes)
		s.left = []int{16}
		for range 2 * 5 {
			s.left = append(s.left, 3000)
		}
	}
	messages := 0
	for _, c := range packets {
		if c.p.Opcode != ib.RCWriteOnlyImm {
			continue
		}
		messages++
		s, peer := sides[c.from], sides[client]
		if c.from == client {
			peer = sides[server]
		}
		s.expect(t, &c)
		if c.p.RETH.Len > 0 && uint32(c.p.RETH.RKey) == peer.me.list.key {
			copy(peer.list[c.p.RETH.VA-peer.me.list.addr:], c.p.Payload)
		}
		require.NoError(t, peer.s.arrived(c.p.ImmDt, c.p.RETH.Len, bytes.NewReader(peer.list)), "frame %d", c.frame)
	}
	require.Equal(t, 2*(1+1+2*2*5+1), messages)
	for _, s := range sides {
		require.Empty(t, s.left)
		require.True(t, s.s.byeSent && s.s.byeRecvd)
	}
}

// firstTransfer is the length of librdmacm's first message of a larger write.
const firstTransfer = 2 << 10

// expect has the stream make its next message, and compares it.
func (s *script) expect(t *testing.T, c *captured) {
	var m message
	switch o, v := splitImmediate(c.p.ImmDt); o {
	case opData:
		require.NotEmpty(t, s.left, "frame %d", c.frame)
		s.s.rcv.take(s.s.rcv.ready) // rstream reads all before it writes
		n := s.s.snd.data(min(s.left[0], s.ramp))
		s.s.data(n, &m)
		s.ramp *= 2
		if s.left[0] -= n; s.left[0] == 0 {
			s.left, s.ramp = s.left[1:], firstTransfer
		}
		require.EqualValues(t, len(c.p.Payload), n, "frame %d", c.frame)
	case opSGL:
		require.True(t, s.s.update(&m), "frame %d", c.frame)
		require.Equal(t, c.p.Payload, m.body[:m.n], "frame %d", c.frame)
	case opCtrl:
		s.s.fin(v, &m)
		require.Equal(t, c.p.ImmDt, m.imm)
		return // an empty WRITE has no address: librdmacm sends what was on its stack
	default:
		t.Fatalf("frame %d: operation %d", c.frame, o)
	}
	require.Equal(t, c.p.ImmDt, m.imm, "frame %d", c.frame)
	require.Equal(t, sge{c.p.RETH.VA, uint32(c.p.RETH.RKey), c.p.RETH.Len}, m.to, "frame %d", c.frame)
}
