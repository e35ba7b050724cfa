package mad_test

import (
	"reflect"
	"testing"

	"github.com/goroce/goroce/ib/mad"
)

// reserved lists the bytes of each message that hold reserved bits: offset and mask.
var reserved = map[mad.Attribute]map[int]byte{
	mad.AttrREQ: {
		4: 0xFF, 24: 0xFF, 25: 0xFF, 26: 0xFF, 27: 0xFF, 90: 0x0F, 91: 0xC0, 94: 0x07, 95: 0x07, 134: 0x0F,
		135: 0xC0, 138: 0x07, 139: 0x07,
	},
	mad.AttrMRA:     {8: 0x3F, 9: 0x07},
	mad.AttrREJ:     {8: 0x3F, 9: 0x01},
	mad.AttrREP:     {27: 0x0F},
	mad.AttrDREQ:    {11: 0xFF},
	mad.AttrSIDRReq: {6: 0xFF, 7: 0xFF},
	mad.AttrLAP: {
		8: 0xFF, 9: 0xFF, 10: 0xFF, 11: 0xFF, 15: 0x07, 16: 0xFF, 17: 0xFF, 18: 0xFF, 19: 0xFF, 58: 0x0F,
		61: 0xC0, 62: 0x07, 63: 0x07,
	},
	mad.AttrAPR: {10: 0xFF, 11: 0xFF},
}

// FuzzDatagram feeds any bytes to Parse and to the decoder of their attribute.
// What decodes encodes to the same bytes but for the reserved ones, which come
// out as zero, and decodes to the same again.
func FuzzDatagram(f *testing.F) {
	for _, d := range datagrams(f) {
		f.Add(d.b)
	}
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		ones := dirty()
		h := mad.CMHeader(a, 1)
		h.Put(&ones)
		f.Add(ones[:])
	}
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h mad.Header
		d, err := mad.Parse(b, &h)
		if (err == mad.OK) != (len(b) == mad.Bytes && b[0] == 1) {
			t.Fatal(err)
		}
		if err != mad.OK {
			return
		}
		out := dirty()
		od := h.Put(&out)
		if string(out[:mad.HeaderBytes]) != string(b[:mad.HeaderBytes]) {
			t.Fatalf("header %x encodes to %x", b[:mad.HeaderBytes], out[:mad.HeaderBytes])
		}
		m := newMessage(h.Attribute)
		if m == nil {
			return
		}
		m.Decode(d)
		if err := m.Put(od); err != nil {
			t.Fatalf("%v: %v", h.Attribute, err)
		}
		want := *d
		for i, mask := range reserved[h.Attribute] {
			want[i] &^= mask
		}
		if *od != want {
			t.Fatalf("%v encodes to\n%x, want\n%x", h.Attribute, *od, want)
		}
		again := newMessage(h.Attribute)
		again.Decode(od)
		if !reflect.DeepEqual(m, again) {
			t.Fatalf("%v decodes to\n%+v, then to\n%+v", h.Attribute, m, again)
		}
	})
}

// FuzzCMAHeader: what decodes encodes to the same bytes but for those that an
// IPv4 header leaves unused.
func FuzzCMAHeader(f *testing.F) {
	for _, d := range datagrams(f) {
		if d.b[17] == byte(mad.AttrREQ) {
			f.Add(d.b[mad.HeaderBytes+140:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again mad.CMAHeader
		if !h.Decode(b) {
			return
		}
		out := make([]byte, mad.CMAHeaderBytes)
		if err := h.Put(out); err != nil {
			t.Fatal(err)
		}
		want := append([]byte(nil), b[:mad.CMAHeaderBytes]...)
		want[1] &= 0xF0
		if want[1] == 0x40 {
			clear(want[4:16])
			clear(want[20:32])
		}
		if string(out) != string(want) {
			t.Fatalf("%+v encodes to\n%x, want\n%x", h, out, want)
		}
		if !again.Decode(out) || again != h {
			t.Fatalf("%+v comes back as %+v", h, again)
		}
	})
}
