package pcap_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// ng writes blocks of pcapng in a byte order.
type ng struct {
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
}

// words are 32 bits each; what is bytes goes in as it is, padded.
func (n ng) words(all ...any) (b []byte) {
	for _, w := range all {
		switch w := w.(type) {
		case uint32:
			b = n.order.AppendUint32(b, w)
		case int:
			b = n.order.AppendUint32(b, uint32(w))
		case []byte:
			b = append(append(b, w...), make([]byte, -len(w)&3)...)
		}
	}
	return b
}

func (n ng) block(typ int, body ...any) []byte {
	b := n.words(body...)
	return n.words(typ, len(b)+12, b, len(b)+12)
}

func (n ng) section() []byte { return n.block(0x0A0D0D0A, 0x1A2B3C4D, n.words(1 << 16)[:4], -1, -1) }

// option is one of a block, whose value is padded.
func (n ng) option(code uint16, value []byte) []byte {
	b := n.order.AppendUint16(nil, code)
	b = n.order.AppendUint16(b, uint16(len(value)))
	return append(append(b, value...), make([]byte, -len(value)&3)...)
}

// iface is an interface of a link type, in the order of the file: 16 bits of it, 16 of nothing, and
// how much is taken of each packet.
func (n ng) iface(link pcap.LinkType, snaplen int, options ...[]byte) []byte {
	b := n.order.AppendUint16(nil, uint16(link))
	return n.block(1, append(b, 0, 0), snaplen, bytes.Join(options, nil))
}

// frames reads a file to its end.
func frames(t *testing.T, file []byte) (all []pcap.Frame, err error) {
	t.Helper()
	r, err := pcap.NewReader(bytes.NewReader(file))
	for err == nil {
		var f pcap.Frame
		if err = r.Next(&f); err == nil {
			f.Data = bytes.Clone(f.Data)
			all = append(all, f)
			require.Equal(t, len(all), r.Frames())
		}
	}
	if err == io.EOF {
		require.EqualValues(t, len(file), r.Offset())
		err = nil
	}
	return all, err
}

// A file of pcapng is read in both byte orders, with all blocks that can have packets, and the
// times, interfaces and directions that they say.
func TestNG(t *testing.T) {
	data := []byte("12345")
	for _, n := range []ng{{binary.LittleEndian}, {binary.BigEndian}} {
		resolution := func(r byte) []byte { return n.option(9, []byte{r}) }
		hour := n.option(14, n.words(n.offset(3600)))
		flags := func(f int) []byte { return append(n.option(1, []byte("why")), n.option(2, n.words(f))...) }
		var file []byte
		var want []pcap.Frame
		add := func(b []byte) { file = append(file, b...) }
		frame := func(b []byte, f pcap.Frame) {
			f.Number, f.Offset = len(want)+1, int64(len(file))
			want = append(want, f)
			add(b)
		}
		add(n.section())
		add(n.block(5, 0, 0, 0)) // statistics: nothing that is known
		add(n.iface(pcap.LinkRaw, 3))
		add(n.iface(pcap.LinkEthernet, 0, n.option(2, []byte("eth0")), resolution(9), hour))
		add(n.iface(pcap.LinkSLL, 0, resolution(0x80|10)))
		add(n.iface(pcap.LinkSLL2, 0, resolution(6), n.option(0, nil), resolution(9)))
		add(n.iface(pcap.LinkNull, 0, resolution(12)))
		add(n.iface(pcap.LinkIPv6, 0, resolution(0)))
		packet := func(iface, high, low, size, wire int, more ...any) []byte {
			return n.block(6, append([]any{iface, high, low, size, wire, data[:size]}, more...)...)
		}
		frame(packet(0, 0, 1000000, 5, 5), pcap.Frame{Link: pcap.LinkRaw, AtNs: 1e9, Data: data, WireBytes: 5})
		frame(packet(1, 1, 5, 4, 9, flags(1)), pcap.Frame{Link: pcap.LinkEthernet, Iface: 1,
			AtNs: 1<<32 + 5 + 3600e9, Data: data[:4], WireBytes: 9, Dir: pcap.In})
		frame(packet(2, 0, 1024+512, 5, 4, flags(2)),
			pcap.Frame{Link: pcap.LinkSLL, Iface: 2, AtNs: 1.5e9, Data: data, WireBytes: 5, Dir: pcap.Out})
		frame(packet(3, 0, 7, 3, 3, flags(3)),
			pcap.Frame{Link: pcap.LinkSLL2, Iface: 3, AtNs: 7000, Data: data[:3], WireBytes: 3})
		frame(packet(4, 1, 0, 0, 1<<24), pcap.Frame{Link: pcap.LinkNull, Iface: 4, AtNs: 1 << 32 / 1000,
			Data: []byte{}, WireBytes: pcap.MaxRecordBytes})
		frame(packet(5, 0, 2, 1, -1),
			pcap.Frame{Link: pcap.LinkIPv6, Iface: 5, AtNs: 2e9, Data: data[:1], WireBytes: pcap.MaxRecordBytes})
		frame(n.block(3, 5, data), pcap.Frame{Link: pcap.LinkRaw, Data: data[:3], WireBytes: 5})
		old := append(n.order.AppendUint16(nil, 1), 0, 9)
		frame(n.block(2, old, 0, 8, 5, 6, data),
			pcap.Frame{Link: pcap.LinkEthernet, Iface: 1, AtNs: 8 + 3600e9, Data: data, WireBytes: 6})
		add(n.section()) // it has interfaces of its own
		add(n.iface(pcap.LinkRaw, 0))
		frame(n.block(3, 4, data[:4]), pcap.Frame{Link: pcap.LinkRaw, Data: data[:4], WireBytes: 4})
		got, err := frames(t, file)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// offset is a time of 64 bits, in seconds.
func (n ng) offset(s uint64) []byte { return n.order.AppendUint64(nil, s) }

// What makes no sense says what and where; what came before is there.
func TestNGDamaged(t *testing.T) {
	n := ng{binary.LittleEndian}
	start := append(n.section(), n.iface(pcap.LinkRaw, 0)...)
	start = append(start, n.block(6, 0, 0, 0, 4, 4, []byte("good"))...)
	cut := func(b []byte, k int) []byte { return b[:len(b)-k] }
	other := n.block(6, 0, 0, 0, 4, 4, []byte("1234"))
	other[len(other)-4]++
	var many []byte
	for range 1 << 12 {
		many = append(many, n.iface(pcap.LinkRaw, 0)...)
	}
	for _, c := range []struct {
		what string
		more []byte
		at   int // of more
	}{
		{"ends in the header of a block", []byte{6, 0, 0}, 0},
		{"ends in a block", cut(n.block(6, 0, 0, 0, 4, 4, []byte("1234")), 1), 8},
		{"ends in a block", cut(n.block(77, 0, 0), 1), 8 + 11},
		{"two different lengths", other, 0},
		{"a block of 8 bytes", n.words(6, 8), 0},
		{"a block of 14 bytes", n.words(6, 14), 0},
		{"a block of 268435460 bytes", n.words(6, 1<<28+4), 0},
		{"an interface of too few bytes", n.block(1, 1), 0},
		{"a packet block of too few bytes", n.block(6, 0, 0, 0, 0), 0},
		{"a packet block of too few bytes", n.block(2, 0, 0, 0, 0), 0},
		{"a packet block of too few bytes", n.block(3), 0},
		{"of interface 1, which there is not", n.block(6, 1, 0, 0, 0, 0), 0},
		{"of interface 2, which there is not", n.block(2, 2, 0, 0, 0, 0), 0},
		{"a packet of 5 bytes in a block that holds 4", n.block(6, 0, 0, 0, 5, 5, []byte("1234")), 0},
		{"more than 4096 interfaces", many, len(many) - 20},
		{"a packet before the first interface", append(n.section(), n.block(3, 0)...), 28},
		{"a section header without byte order", n.block(0x0A0D0D0A, 0, 0, -1, -1), 12},
		{"a section header of 24 bytes", n.words(0x0A0D0D0A, 24, 0x1A2B3C4D), 0},
		{"a section header of 30 bytes", n.words(0x0A0D0D0A, 30, 0x1A2B3C4D), 0},
		{"a section header of 268435460 bytes", n.words(0x0A0D0D0A, 1<<28+4, 0x1A2B3C4D), 0},
		{"ends in a section header", n.words(0x0A0D0D0A, 28), 8},
		{"ends in a section header", cut(n.section(), 1), 27},
	} {
		got, err := frames(t, append(bytes.Clone(start), c.more...))
		require.Len(t, got, 1, c.what)
		var format *pcap.FormatError
		require.ErrorAs(t, err, &format, c.what)
		require.ErrorContains(t, err, c.what)
		require.EqualValues(t, len(start)+c.at, format.Offset, "%s: %v", c.what, err)
	}
	_, err := frames(t, append(n.words(0x0A0D0D0A, 28)[:4], n.words(28, 0)...))
	require.ErrorContains(t, err, "without byte order")

	// Blocks that are longer than any packet are passed over, and so are options that are longer
	// than their block.
	long := n.block(6, 0, 0, 0, 4, 4, []byte("1234"), make([]byte, 1<<18+4096))
	got, err := frames(t,
		append(append(bytes.Clone(start), long...), n.block(6, 0, 0, 0, 1, 1, []byte("2"), n.words(2|40<<16, 1))...))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []byte("2"), got[1].Data)
	require.Equal(t, pcap.Unknown, got[1].Dir)
}

// A file of pcap has one kind of time, in one byte order, and says what is wrong with it, where.
func TestPcap(t *testing.T) {
	for _, n := range []ng{{binary.LittleEndian}, {binary.BigEndian}} {
		for magic, unit := range map[uint32]int64{0xA1B2C3D4: 1000, 0xA1B23C4D: 1} {
			start := n.words(magic, 0, 0, 0, 1<<16, 1|7<<28)
			file := append(bytes.Clone(start), n.words(9, 8, 4, 6, []byte("1234"))...)
			got, err := frames(t, file)
			require.NoError(t, err)
			require.Equal(t, []pcap.Frame{{Number: 1, Offset: 24, AtNs: 9e9 + 8*unit, Link: pcap.LinkEthernet,
				Data: []byte("1234"), WireBytes: 6}}, got)
			for what, more := range map[string][]byte{
				"ends in the header of a frame": n.words(9, 8),
				"ends in a frame":               n.words(9, 8, 4, 6, []byte("1234"))[:18],
				"a frame of 262145 bytes":       n.words(9, 8, 1<<18+1, 6),
			} {
				got, err := frames(t, append(bytes.Clone(file), more...))
				require.ErrorContains(t, err, what)
				require.Len(t, got, 1)
				var format *pcap.FormatError
				require.ErrorAs(t, err, &format)
				at := len(file)
				if what == "ends in a frame" {
					at += 16
				}
				require.EqualValues(t, at, format.Offset, what)
			}
			_, err = frames(t, start[:23])
			require.ErrorContains(t, err, "the header of the file is cut")
			whole := append(bytes.Clone(start), n.words(0, 0, 1<<18, 0, []byte(strings.Repeat("x", 1<<18)))...)
			got, err = frames(t, whole)
			require.NoError(t, err)
			require.Len(t, got[0].Data, pcap.MaxRecordBytes)
		}
	}
}
