package mad

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnserved(t *testing.T) {
	get := Header{BaseVersion: 1, Class: ClassPerf, ClassVersion: 1, Method: MethodGet, TID: 77,
		Attribute: AttrClassPortInfo, Modifier: 5}
	for _, c := range []struct {
		name   string
		change func(h *Header)
		want   bool
	}{
		{"PMA Get", func(*Header) {}, true},
		{"PMA Set", func(h *Header) { h.Method = MethodSet }, true},
		{"SA Get", func(h *Header) { h.Class, h.ClassVersion = ClassSubnAdm, 2 }, true},
		{"vendor Get", func(h *Header) { h.Class = 0x30 }, true},
		{"unknown version", func(h *Header) { h.ClassVersion = 99 }, true},
		{"CM ClassPortInfo", func(h *Header) { h.Class, h.ClassVersion = ClassCM, 2 }, true},
		{"CM Get of a message", func(h *Header) { h.Class, h.ClassVersion, h.Attribute = ClassCM, 2, AttrREQ }, false},
		{"Send", func(h *Header) { h.Method = MethodSend }, false},
		{"Trap", func(h *Header) { h.Method = MethodTrap }, false},
		{"an answer", func(h *Header) { h.Method = MethodGetResp }, false},
		{"subnet management", func(h *Header) { h.Class = classSubnLID }, false},
		{"directed route", func(h *Header) { h.Class = classSubnDirected }, false},
		{"base version", func(h *Header) { h.BaseVersion = 2 }, false},
	} {
		h := get
		c.change(&h)
		var b, answer [Bytes]byte
		copy(h.Put(&b)[:], bytes.Repeat([]byte{0xA5}, DataBytes))
		require.Equal(t, c.want, Unserved(b[:], &answer), c.name)
		if !c.want {
			require.Zero(t, answer, c.name)
			continue
		}
		h.Method, h.Status = MethodGetResp, StatusBadMethodAttr
		h.Put(&b) // all else comes back as it was
		require.Equal(t, b, answer, c.name)
		require.False(t, Unserved(answer[:], &b), "an answer is not answered")
	}
	var answer [Bytes]byte
	require.False(t, Unserved(make([]byte, Bytes-1), &answer))
}
