package rsocket

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// Messages as librdmacm of rdma-core has them.
var serviceTexts = map[string]serviceMessage{
	"55555555" + "04001000" + "00000123" + "0a000001" + "6869": {opData, 0x123,
		netip.MustParseAddr("10.0.0.1"), []byte("hi")},
	"55555555" + "04071000" + "00abcdef" + "7f000001": {opCtrl, 0xabcdef,
		netip.MustParseAddr("127.0.0.1"), []byte{}},
	"55555555" + "06071c00" + "00000011" + "fd970000000000000000000000000002": {opCtrl, 0x11,
		netip.MustParseAddr("fd97::2"), []byte{}},
}

var datagramTexts = map[string]struct {
	from netip.AddrPort
	data string
}{
	"04081c060a0000016869":                               {netip.MustParseAddrPort("10.0.0.1:7174"), "hi"},
	"06181c0600000000fd97000000000000000000000000000268": {netip.MustParseAddrPort("[fd97::2]:7174"), "h"},
	// A mapped address.
	"06181c060000000000000000000000000000ffff0a00000168": {netip.MustParseAddrPort("10.0.0.1:7174"), "h"},
}

func fromHex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

func TestServiceMessage(t *testing.T) {
	for text, want := range serviceTexts {
		b := fromHex(t, text)
		require.Equal(t, b, want.append(nil))
		m, ok := parseService(b)
		require.True(t, ok, text)
		require.Equal(t, want, m)
		for n := range len(b) - len(m.data) {
			_, ok := parseService(b[:n])
			require.False(t, ok, "the first %d bytes of %s", n, text)
		}
		for i, change := range map[string]func([]byte){
			"tag":       func(b []byte) { b[0] = 0x54 },
			"version":   func(b []byte) { b[4] ^= 2 },
			"operation": func(b []byte) { b[5] = 1 },
			"length":    func(b []byte) { b[6]++ },
			"QP 1":      func(b []byte) { copy(b[9:], "\x00\x00\x01") },
			"multicast": func(b []byte) { copy(b[9:], "\xff\xff\xff") },
		} {
			bad := bytes.Clone(b)
			change(bad)
			_, ok := parseService(bad)
			require.False(t, ok, "%s of %s", i, text)
		}
	}
	long := (&serviceMessage{opData, 0x12, netip.MustParseAddr("10.0.0.1"), make([]byte, 2032)}).append(nil)
	_, ok := parseService(long)
	require.True(t, ok)
	_, ok = parseService(append(long, 0))
	require.False(t, ok, "librdmacm has no room for it")
}

func TestDatagramHeader(t *testing.T) {
	for text, want := range datagramTexts {
		b := fromHex(t, text)
		from, data, ok := parseDatagram(b)
		require.True(t, ok, text)
		require.Equal(t, want.from, from)
		require.Equal(t, want.data, string(data))
		if b[1] == datagramHeader4 || !from.Addr().Is4() {
			require.Equal(t, b, append(appendDatagramHeader(nil, from), data...))
		}
		for n := range len(b) - len(data) {
			_, _, ok := parseDatagram(b[:n])
			require.False(t, ok, "the first %d bytes of %s", n, text)
		}
		b[0] = 5
		_, _, ok = parseDatagram(b)
		require.False(t, ok)
	}
}

// What anybody sends to the UDP port is taken apart within its bounds, and only what means one
// thing is taken.
func FuzzService(f *testing.F) {
	for text := range serviceTexts {
		f.Add(fromHex(f, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseService(b)
		if !ok {
			return
		}
		if m.qpn <= ib.QPNGSI || m.qpn >= ib.QPNMulticast || !m.addr.IsValid() || len(m.data) > len(b)-serviceHeader4 {
			t.Fatalf("%+v of %x", m, b)
		}
		if again, ok := parseService(m.append(nil)); len(b) < slotBytes-serviceHeader6 &&
			(!ok || again.qpn != m.qpn || again.addr != m.addr || !bytes.Equal(again.data, m.data)) {
			t.Fatalf("%+v came back as %+v", m, again)
		}
	})
}

func FuzzDatagram(f *testing.F) {
	for text := range datagramTexts {
		f.Add(fromHex(f, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		from, data, ok := parseDatagram(b)
		if !ok {
			return
		}
		again, rest, ok := parseDatagram(append(appendDatagramHeader(nil, from), data...))
		if !ok || again != from || !bytes.Equal(rest, data) {
			t.Fatalf("%v, %x came back as %v, %x", from, data, again, rest)
		}
	})
}
