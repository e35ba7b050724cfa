package mad_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// datagram is a captured management datagram.
type datagram struct {
	capture string
	index   int
	b       []byte
}

func (d datagram) String() string { return fmt.Sprintf("%s#%d", d.capture, d.index) }

const captureFolder = "../testdata/captures"

// datagrams returns the payload of every packet to QP 1 in the captures.
func datagrams(t testing.TB) (found []datagram) {
	t.Helper()
	files, _ := filepath.Glob(captureFolder + "/*.pcap")
	if len(files) == 0 {
		t.Fatal("no captures")
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b = b[24:]
		for index := 1; len(b) > 16; index++ {
			n := int(binary.LittleEndian.Uint32(b[8:]))
			ip := b[16+14 : 16+n]
			b = b[16+n:]
			var udp []byte
			switch {
			case ip[0] == 0x45 && ip[9] == 17:
				udp = ip[20:binary.BigEndian.Uint16(ip[2:])]
			case ip[0]>>4 == 6 && ip[6] == 17:
				udp = ip[40 : 40+binary.BigEndian.Uint16(ip[4:])]
			default:
				continue
			}
			if binary.BigEndian.Uint16(udp[2:]) != ib.UDPPort {
				continue
			}
			var p ib.Packet
			if err := p.Decode(udp[8:]); err != ib.DecodeOK {
				t.Fatal(file, index, err)
			}
			if p.DestQP != ib.QPNGSI {
				continue
			}
			if p.Opcode != ib.UDSendOnly || p.DETH.QKey != ib.QKeyGSI || p.DETH.SrcQP != ib.QPNGSI {
				t.Errorf("%s frame %d: %v to QP 1, Q_Key %08x, from QP %v", file, index, p.Opcode,
					p.DETH.QKey, p.DETH.SrcQP)
			}
			found = append(found, datagram{filepath.Base(file), index, p.Payload})
		}
	}
	return found
}

// message is what all messages do.
type message interface {
	Decode(*mad.Data)
	Put(*mad.Data) error
}

// newMessage returns an empty message of attribute a, or nil.
func newMessage(a mad.Attribute) message {
	switch a {
	case mad.AttrREQ:
		return new(mad.REQ)
	case mad.AttrMRA:
		return new(mad.MRA)
	case mad.AttrREJ:
		return new(mad.REJ)
	case mad.AttrREP:
		return new(mad.REP)
	case mad.AttrRTU:
		return new(mad.RTU)
	case mad.AttrDREQ:
		return new(mad.DREQ)
	case mad.AttrDREP:
		return new(mad.DREP)
	case mad.AttrSIDRReq:
		return new(mad.SIDRReq)
	case mad.AttrSIDRRep:
		return new(mad.SIDRRep)
	case mad.AttrLAP:
		return new(mad.LAP)
	case mad.AttrAPR:
		return new(mad.APR)
	}
	return nil
}

// TestCaptures: every captured message decodes and encodes to the same bytes,
// reserved fields and all.
func TestCaptures(t *testing.T) {
	seen := map[mad.Attribute]int{}
	for _, d := range datagrams(t) {
		var h mad.Header
		data, err := mad.Parse(d.b, &h)
		if err != mad.OK {
			t.Fatalf("%v: %v", d, err)
		}
		seen[h.Attribute]++
		if want := mad.CMHeader(h.Attribute, h.TID); h != want {
			t.Errorf("%v: header %+v, want %+v", d, h, want)
		}
		m := newMessage(h.Attribute)
		if m == nil {
			t.Fatalf("%v: %v", d, h.Attribute)
		}
		m.Decode(data)
		out := dirty()
		if err := m.Put(h.Put(&out)); err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		if string(out[:]) != string(d.b) {
			t.Errorf("%v: %v encodes to\n%x, want\n%x", d, h.Attribute, out, d.b)
		}
	}
	for _, a := range []mad.Attribute{mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrDREQ, mad.AttrDREP} {
		if seen[a] < 5 {
			t.Errorf("%d times %v in the captures", seen[a], a)
		}
	}
	t.Log(seen)
}

// dirty returns a datagram full of ones, so that what an encoder leaves out shows.
func dirty() (b [mad.Bytes]byte) {
	for i := range b {
		b[i] = 0xFF
	}
	return b
}
