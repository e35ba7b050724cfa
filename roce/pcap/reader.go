package pcap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// LinkType says which header the frames of an interface begin with (LINKTYPE_ of tcpdump).
type LinkType uint16

// The supported link types.
const (
	LinkNull     LinkType = 0   // BSD loopback: an address family of 4 bytes
	LinkEthernet LinkType = 1   //
	LinkRaw      LinkType = 101 // begins with an IP header
	LinkSLL      LinkType = 113 // Linux "cooked", tcpdump -i any until 4.99
	LinkIPv4     LinkType = 228
	LinkIPv6     LinkType = 229
	LinkSLL2     LinkType = 276 // Linux "cooked" version 2, tcpdump -i any
	linkRawBSD   LinkType = 12  // used by some systems for LinkRaw
	linkLoop     LinkType = 108 // LinkNull in network order, OpenBSD
)

func (t LinkType) String() string {
	switch t {
	case LinkNull, linkLoop:
		return "loopback"
	case LinkEthernet:
		return "Ethernet"
	case LinkRaw, linkRawBSD, LinkIPv4, LinkIPv6:
		return "raw IP"
	case LinkSLL:
		return "Linux cooked (SLL)"
	case LinkSLL2:
		return "Linux cooked (SLL2)"
	}
	if k, ok := strangers[t]; ok {
		return k.name
	}
	return fmt.Sprintf("link type %d", uint16(t))
}

// strangers are unsupported link types, and what to do instead.
var strangers = map[LinkType]struct{ name, advice string }{
	9:   {"PPP", againOnLink},
	50:  {"PPP in HDLC", againOnLink},
	51:  {"PPPoE", againOnLink},
	105: {"802.11", "RoCE over a wireless network shows on the interface itself, not in monitor mode: " + againOnLink},
	127: {"802.11 with radiotap",
		"RoCE over a wireless network shows on the interface itself, not in monitor mode: " + againOnLink},
	192: {"PPI", "take the header off: editcap -C HEADER_BYTES -T ether IN OUT, or " + againOnLink},
	197: {"ERF (Endace)", "convert it with the card's own tool: dagconvert -T erf:pcap -i IN -o OUT"},
	239: {"NFLOG", againOnLink},
	240: {"NetAnalyzer", "take the four bytes before each frame off: editcap -C 4 -T ether IN OUT"},
	247: {"InfiniBand", "this is InfiniBand itself, not RoCE v2: there is no IP in it; Wireshark reads it. Of a card in RoCE mode: capture on its Ethernet interface"},
	248: {"SCTP", againOnLink},
	249: {"USB", againOnLink},
	253: {"netlink", "these are messages of the kernel, not packets: " + againOnLink},
	258: {"PKTAP", "capture on one interface instead of pktap: tcpdump -i en0 -w FILE udp port 4791"},
	271: {"vsock", againOnLink},
}

const againOnLink = "capture again on the Ethernet interface: tcpdump -i eth0 -w FILE udp port 4791"

// Advice says what to do about frames of an unsupported link type; it is empty for supported ones.
func (t LinkType) Advice() string {
	if k, ok := strangers[t]; ok {
		return k.advice
	}
	switch t {
	case LinkNull, linkLoop, LinkEthernet, LinkRaw, linkRawBSD, LinkIPv4, LinkIPv6, LinkSLL, LinkSLL2:
		return ""
	}
	return againOnLink +
		"; if Ethernet frames are in it behind a header of a fixed length: editcap -C HEADER_BYTES -T ether IN OUT"
}

// Direction is the direction of a frame at the place of the capture, if known.
type Direction uint8

// The directions.
const (
	Unknown Direction = iota
	In                // received by the host that captured
	Out               // sent by it
)

func (d Direction) String() string { return [...]string{"", "in", "out"}[d%3] }

// Frame is one captured frame.
type Frame struct {
	Number    int   // in the file, from 1
	Offset    int64 // of its record in the file, bytes
	AtNs      int64 // when it was seen: nanoseconds since 1970
	Link      LinkType
	Iface     int // interface of the capture: pcapng's, or the index in SLL2
	Dir       Direction
	Data      []byte // the captured bytes, valid until the next frame is read
	WireBytes int    // length of the frame on the wire; Data is shorter if it was cut
}

// Cut reports whether the capture has less than the whole frame (tcpdump -s).
func (f *Frame) Cut() bool { return len(f.Data) < f.WireBytes }

// MaxRecordBytes bounds a frame in a file. No interface has longer ones.
const MaxRecordBytes = 1 << 18

const (
	maxInterfaces = 1 << 12
	maxBlockBytes = 1 << 28 // skipped blocks may be long
)

// FormatError says where a file becomes invalid.
type FormatError struct {
	Offset int64 // bytes from the start of the file
	What   string
	Err    error // of the reader, if that failed
}

func (e *FormatError) Error() string {
	s := fmt.Sprintf("capture file: at byte %d: %s", e.Offset, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *FormatError) Unwrap() error { return e.Err }

// Reader reads a capture file.
type Reader struct {
	r      *bufio.Reader
	off    int64
	order  binary.ByteOrder
	ng     bool
	frames int
	buf    []byte

	// pcap: one interface for all frames.
	link    LinkType
	unitNs  int64
	snaplen uint32

	ifaces []iface // pcapng, of the current section
}

// iface is an interface of a pcapng section. A time is ticks*mul/div nanoseconds.
type iface struct {
	link     LinkType
	snaplen  uint32
	mul, div uint64
	offsetS  int64
}

const (
	magicMicro = 0xA1B2C3D4
	magicNano  = 0xA1B23C4D
	magicOrder = 0x1A2B3C4D

	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockOldPacket = 2
	blockSimple    = 3
	blockPacket    = 6
)

// NewReader reads the header of a file, which may be compressed with gzip or zstd.
func NewReader(r io.Reader) (*Reader, error) {
	f := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	if err := f.decompress(); err != nil {
		return nil, err
	}
	head, err := f.r.Peek(4)
	if err != nil {
		return nil, f.fail("the file is shorter than any capture file", noEOF(err))
	}
	switch le, be := binary.LittleEndian.Uint32(head), binary.BigEndian.Uint32(head); {
	case le == blockSection:
		f.ng = true
		return f, nil
	case le == magicMicro, le == magicNano:
		f.order = binary.LittleEndian
	case be == magicMicro, be == magicNano:
		f.order = binary.BigEndian
	default:
		return nil, f.fail(fmt.Sprintf("begins with %x: neither pcap nor pcapng", head), nil)
	}
	h, err := f.take(24)
	if err != nil {
		return nil, f.fail("the header of the file is cut", noEOF(err))
	}
	f.unitNs = 1
	if f.order.Uint32(h) == magicMicro {
		f.unitNs = 1000
	}
	f.snaplen = f.order.Uint32(h[16:])
	f.link = LinkType(f.order.Uint32(h[20:])) // the upper bits have other meanings
	return f, nil
}

// Offset returns how many bytes of the capture have been read; for a compressed file, of the
// decompressed content.
func (f *Reader) Offset() int64 { return f.off }

// Frames returns how many frames were read.
func (f *Reader) Frames() int { return f.frames }

func (f *Reader) fail(what string, err error) error {
	return &FormatError{Offset: f.off, What: what, Err: err}
}

// noEOF returns nil for the end of the file, which needs no further explanation.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// take reads n bytes, which are valid until the next take. Callers bound n. The offset moves only
// if all bytes are there.
func (f *Reader) take(n int) ([]byte, error) {
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	b := f.buf[:n]
	if k, err := io.ReadFull(f.r, b); err != nil {
		if k == 0 && errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, err
	}
	f.off += int64(n)
	return b, nil
}

// Next reads the next frame into fr. It returns io.EOF at the end of the file, and a *FormatError
// if the file is invalid or ends in the middle of a frame. After an error it keeps returning one.
func (f *Reader) Next(fr *Frame) error {
	if f.ng {
		return f.nextNG(fr)
	}
	start := f.off
	h, err := f.take(16)
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return f.fail("the file ends in the header of a frame", noEOF(err))
	}
	sec, sub := f.order.Uint32(h), f.order.Uint32(h[4:])
	captured, wire := f.order.Uint32(h[8:]), f.order.Uint32(h[12:])
	if captured > MaxRecordBytes {
		f.off = start
		return f.fail(fmt.Sprintf("a frame of %d bytes: the file is damaged here", captured), nil)
	}
	data, err := f.take(int(captured))
	if err != nil {
		return f.fail("the file ends in a frame", noEOF(err))
	}
	f.frames++
	*fr = Frame{
		Number: f.frames, Offset: start, AtNs: int64(sec)*1e9 + int64(sub)*f.unitNs,
		Link: f.link, Data: data, WireBytes: wireBytes(wire, len(data)),
	}
	return nil
}

// wireBytes returns the length of a frame on the wire, and corrects an impossible claim.
func wireBytes(claimed uint32, captured int) int {
	return min(max(int(int32(min(claimed, 1<<30))), captured), MaxRecordBytes)
}

func (f *Reader) nextNG(fr *Frame) error {
	for {
		start := f.off
		h, err := f.take(8)
		if err == io.EOF {
			return io.EOF
		}
		if err != nil {
			return f.fail("the file ends in the header of a block", noEOF(err))
		}
		if binary.LittleEndian.Uint32(h) == blockSection {
			if err := f.section([8]byte(h)); err != nil {
				return err
			}
			continue
		}
		if f.order == nil {
			f.off = start
			return f.fail("a block before the first section", nil)
		}
		typ, n := f.order.Uint32(h), f.order.Uint32(h[4:])
		if n < 12 || n%4 != 0 || n > maxBlockBytes {
			f.off = start
			return f.fail(fmt.Sprintf("a block of %d bytes: the file is damaged here", n), nil)
		}
		known := typ == blockInterface || typ == blockPacket || typ == blockSimple || typ == blockOldPacket
		if !known || n > MaxRecordBytes+4096 {
			k, err := f.r.Discard(int(n) - 8)
			f.off += int64(k)
			if err != nil {
				return f.fail("the file ends in a block", noEOF(err))
			}
			continue
		}
		b, err := f.take(int(n) - 8)
		if err != nil {
			return f.fail("the file ends in a block", noEOF(err))
		}
		body, tail := b[:len(b)-4], b[len(b)-4:]
		if f.order.Uint32(tail) != n {
			f.off = start
			return f.fail("a block has two different lengths: the file is damaged here", nil)
		}
		*fr = Frame{Offset: start}
		got, what := false, ""
		switch typ {
		case blockInterface:
			what = f.addInterface(body)
		case blockPacket:
			got, what = f.packet(body, fr)
		case blockOldPacket:
			got, what = f.oldPacket(body, fr)
		case blockSimple:
			got, what = f.simplePacket(body, fr)
		}
		if what != "" {
			f.off = start
			return f.fail(what, nil)
		}
		if got {
			f.frames++
			fr.Number = f.frames
			return nil
		}
	}
}

// section starts a new section, which may have another byte order, and has other interfaces.
func (f *Reader) section(h [8]byte) error {
	start := f.off - 8
	b, err := f.take(4)
	if err != nil {
		return f.fail("the file ends in a section header", noEOF(err))
	}
	switch {
	case binary.LittleEndian.Uint32(b) == magicOrder:
		f.order = binary.LittleEndian
	case binary.BigEndian.Uint32(b) == magicOrder:
		f.order = binary.BigEndian
	default:
		return f.fail("a section header without byte order", nil)
	}
	n := f.order.Uint32(h[4:])
	if n < 28 || n%4 != 0 || n > maxBlockBytes {
		f.off = start
		return f.fail(fmt.Sprintf("a section header of %d bytes", n), nil)
	}
	k, err := f.r.Discard(int(n) - 12)
	f.off += int64(k)
	if err != nil {
		return f.fail("the file ends in a section header", noEOF(err))
	}
	f.ifaces = f.ifaces[:0]
	return nil
}

const (
	optEnd      = 0
	optFlags    = 2 // of a packet
	optTsResol  = 9 // of an interface
	optTsOffset = 14
)

// options calls use for each option in b.
func (f *Reader) options(b []byte, use func(code uint16, value []byte)) {
	for len(b) >= 4 {
		code, n := f.order.Uint16(b), int(f.order.Uint16(b[2:]))
		b = b[4:]
		if code == optEnd || n > len(b) {
			return
		}
		use(code, b[:n])
		b = b[min(len(b), (n+3)&^3):]
	}
}

func (f *Reader) addInterface(b []byte) (what string) {
	if len(b) < 8 {
		return "an interface of too few bytes"
	}
	if len(f.ifaces) == maxInterfaces {
		return fmt.Sprintf("more than %d interfaces", maxInterfaces)
	}
	i := iface{link: LinkType(f.order.Uint16(b)), snaplen: f.order.Uint32(b[4:]), mul: 1000, div: 1}
	f.options(b[8:], func(code uint16, v []byte) {
		switch {
		case code == optTsResol && len(v) >= 1:
			i.mul, i.div = resolution(v[0])
		case code == optTsOffset && len(v) >= 8:
			i.offsetS = int64(f.order.Uint64(v))
		}
	})
	f.ifaces = append(f.ifaces, i)
	return ""
}

// resolution returns the factor and divisor that convert ticks of if_tsresol to nanoseconds.
func resolution(r uint8) (mul, div uint64) {
	mul, div = 1, 1
	if r&0x80 != 0 { // a power of two
		return 1e9, 1 << min(r&0x7F, 40)
	}
	for ; r < 9; r++ {
		mul *= 10
	}
	for ; r > 9 && div < 1e12; r-- {
		div *= 10
	}
	return mul, div
}

// ns converts a time of the interface.
func (i *iface) ns(high, low uint32) int64 {
	t := uint64(high)<<32 | uint64(low)
	s := t / i.div * i.mul
	s += t % i.div * i.mul / i.div
	return int64(s) + i.offsetS*1e9
}

func (f *Reader) packet(b []byte, fr *Frame) (got bool, what string) {
	if len(b) < 20 {
		return false, "a packet block of too few bytes"
	}
	id := f.order.Uint32(b)
	captured := f.order.Uint32(b[12:])
	if what := f.fill(fr, int64(id), f.order.Uint32(b[4:]), f.order.Uint32(b[8:]), captured,
		f.order.Uint32(b[16:]), b[20:]); what != "" {
		return false, what
	}
	if rest := b[20:]; int(captured+3)&^3 < len(rest) {
		f.options(rest[(int(captured)+3)&^3:], func(code uint16, v []byte) {
			if code == optFlags && len(v) >= 4 {
				switch f.order.Uint32(v) & 3 {
				case 1:
					fr.Dir = In
				case 2:
					fr.Dir = Out
				}
			}
		})
	}
	return true, ""
}

func (f *Reader) oldPacket(b []byte, fr *Frame) (got bool, what string) {
	if len(b) < 20 {
		return false, "a packet block of too few bytes"
	}
	what = f.fill(fr, int64(f.order.Uint16(b)), f.order.Uint32(b[4:]), f.order.Uint32(b[8:]),
		f.order.Uint32(b[12:]), f.order.Uint32(b[16:]), b[20:])
	return what == "", what
}

func (f *Reader) simplePacket(b []byte, fr *Frame) (got bool, what string) {
	if len(b) < 4 {
		return false, "a packet block of too few bytes"
	}
	if len(f.ifaces) == 0 {
		return false, "a packet before the first interface"
	}
	wire := f.order.Uint32(b)
	captured := min(wire, uint32(len(b)-4))
	if s := f.ifaces[0].snaplen; s != 0 {
		captured = min(captured, s)
	}
	what = f.fill(fr, 0, 0, 0, captured, wire, b[4:])
	return what == "", what
}

// fill fills a frame from a packet block.
func (f *Reader) fill(fr *Frame, id int64, high, low, captured, wire uint32, data []byte) (what string) {
	if id >= int64(len(f.ifaces)) {
		return fmt.Sprintf("a packet of interface %d, which there is not", id)
	}
	if int64(captured) > int64(len(data)) {
		return fmt.Sprintf("a packet of %d bytes in a block that holds %d", captured, len(data))
	}
	i := &f.ifaces[id]
	fr.AtNs, fr.Link, fr.Iface = i.ns(high, low), i.link, int(id)
	fr.Data, fr.WireBytes = data[:captured], wireBytes(wire, int(captured))
	return ""
}
