package trace

import (
	"encoding/binary"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/wire"
)

// Link is a link that writes its packets to a trace.
type Link struct {
	link.Link
	base int64 // wall clock minus the clock of the link, nanoseconds

	mu    sync.Mutex // the two sides of the link share the writer
	w     *Writer
	err   error
	count uint64
	flows map[flowKey]*ib.ICRC
	head  [ib.IPv6HeaderBytes + ib.UDPHeaderBytes]byte
	body  []byte
}

type flowKey struct {
	src, dst netip.Addr
	port     uint16
}

// maxFlows bounds the ICRC states kept; beyond it they are made anew.
const maxFlows = 4096

// New wraps l and begins a trace on w. On a link with a virtual clock the
// times in the trace are virtual, counted from 1970.
func New(l link.Link, w io.Writer) (*Link, error) {
	pw, err := NewWriter(w)
	if err != nil {
		return nil, err
	}
	t := &Link{Link: l, w: pw, flows: make(map[flowKey]*ib.ICRC)}
	if !l.Capabilities().Virtual {
		t.base = time.Now().UnixNano() - l.Now()
	}
	return t, nil
}

// Unwrap returns the link that is traced.
func (t *Link) Unwrap() link.Link { return t.Link }

// Err returns the error that ended the trace, if one did.
func (t *Link) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Packets returns how many packets were written.
func (t *Link) Packets() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Send writes the packets to the trace and sends them.
func (t *Link) Send(batch []wire.TxPacket) {
	n := 0
	// As far as the payloads are there: to read one that is not panics.
	defer func() { t.Link.Send(batch[:n]) }()
	if len(batch) > 0 {
		t.sent(batch, &n)
	}
}

// Recv receives packets and writes them to the trace.
func (t *Link) Recv(batch []wire.RxPacket) (int, error) {
	n, err := t.Link.Recv(batch)
	if n > 0 {
		t.received(batch[:n])
	}
	return n, err
}

// sent writes packets, and counts in n those that it has gone through.
func (t *Link) sent(batch []wire.TxPacket, n *int) {
	now := t.Link.Now() + t.base
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		p := &batch[i]
		if p.Path.Src.Is4() != p.Path.Dst.Is4() {
			*n = i + 1
			continue // no link can send it
		}
		f := flowKey{p.Path.Src, p.Path.Dst, t.Link.SourcePort(p.Path)}
		t.body = link.AppendPacket(t.body[:0], t.icrc(f), p, 0)
		t.write(now, true, f, p.Path.TrafficClass, p.Path.HopLimit, 0, t.body)
		*n = i + 1
	}
}

func (t *Link) received(batch []wire.RxPacket) {
	now := t.Link.Now() + t.base
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		p := &batch[i]
		f := flowKey{p.Src, p.Dst, p.SrcPort}
		id, m := t.icrc(f).Verify(0, p.Data)
		if m == ib.Mismatch {
			id = 0
		}
		t.write(now, false, f, p.TrafficClass, p.HopLimit, id, p.Data)
	}
}

func (t *Link) icrc(f flowKey) *ib.ICRC {
	if c := t.flows[f]; c != nil {
		return c
	}
	if len(t.flows) >= maxFlows {
		clear(t.flows)
	}
	c := ib.NewICRC(ib.Flow{Src: f.src, Dst: f.dst, SrcPort: f.port, DstPort: ib.UDPPort})
	t.flows[f] = &c
	return &c
}

func (t *Link) write(now int64, outbound bool, f flowKey, tclass, ttl uint8, id uint16, body []byte) {
	if t.err != nil {
		return
	}
	n := putHeaders(t.head[:], f, tclass, ttl, id, body)
	if t.err = t.w.Packet(now, outbound, t.head[:n], body); t.err == nil {
		t.count++
	}
}

// putHeaders writes IP and UDP headers and returns their length.
func putHeaders(b []byte, f flowKey, tclass, ttl uint8, id uint16, body []byte) int {
	payload := len(body)
	clear(b)
	be := binary.BigEndian
	var udp []byte
	if f.src.Is4() {
		b[0], b[1] = 0x45, tclass
		be.PutUint16(b[2:], uint16(ib.IPv4HeaderBytes+ib.UDPHeaderBytes+payload))
		be.PutUint16(b[4:], id)
		b[6] = 0x40 // DF
		b[8], b[9] = ttl, 17
		s, d := f.src.As4(), f.dst.As4()
		copy(b[12:], s[:])
		copy(b[16:], d[:])
		be.PutUint16(b[10:], headerChecksum(b[:ib.IPv4HeaderBytes]))
		udp = b[ib.IPv4HeaderBytes:]
	} else {
		b[0], b[1] = 0x60|tclass>>4, tclass<<4
		be.PutUint16(b[4:], uint16(ib.UDPHeaderBytes+payload))
		b[6], b[7] = 17, ttl
		s, d := f.src.As16(), f.dst.As16()
		copy(b[8:], s[:])
		copy(b[24:], d[:])
		udp = b[ib.IPv6HeaderBytes:]
	}
	be.PutUint16(udp, f.port)
	be.PutUint16(udp[2:], ib.UDPPort)
	be.PutUint16(udp[4:], uint16(ib.UDPHeaderBytes+payload))
	// Over IPv4 the checksum stays 0, as rxe sends it; over IPv6 that is an
	// exception which tools complain about.
	if f.src.Is6() {
		sum := sum16(udp[:ib.UDPHeaderBytes], sum16(b[8:ib.IPv6HeaderBytes], uint32(ib.UDPHeaderBytes+payload+17)))
		be.PutUint16(udp[6:], fold(sum16(body, sum)))
	}
	return len(b) - len(udp) + ib.UDPHeaderBytes
}

func headerChecksum(b []byte) uint16 { return fold(sum16(b, 0)) }

// sum16 adds up the 16-bit words of b; an odd last byte counts as the high one.
func sum16(b []byte, sum uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// fold finishes a checksum.
func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	return ^uint16(sum)
}
