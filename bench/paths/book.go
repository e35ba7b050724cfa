package paths

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// Protocol is whose packets are counted together.
type Protocol int

// The protocols.
const (
	TCP   Protocol = iota
	RoCE           // UDP to port 4791
	Other          // QUIC, and what else there is
	numProtocols
)

// Count is what one direction of a link has done with packets of a protocol.
type Count struct {
	In, Bytes int // packets, and their IP bytes, that came to the link
	Lost      int // by the link
	Overflow  int // had no room in its queue
	Marked    int
	Late      int // were held back, so that others overtake them
	Doubled   int
	// Data are packets with payload, Repeats those of them that the sender had sent before, and
	// Needless those of these that the link had delivered then. Nothing is known of Other.
	Data, Repeats, Needless int
}

// Dropped is what did not arrive.
func (c *Count) Dropped() int { return c.Lost + c.Overflow }

// minus is what came between two countings.
func (c Count) minus(o Count) Count {
	return Count{
		c.In - o.In, c.Bytes - o.Bytes, c.Lost - o.Lost, c.Overflow - o.Overflow, c.Marked - o.Marked,
		c.Late - o.Late, c.Doubled - o.Doubled, c.Data - o.Data, c.Repeats - o.Repeats, c.Needless - o.Needless,
	}
}

// book counts the packets of a lane.
type book struct {
	counts  [numProtocols]Count
	streams map[stream]*seen
}

// stream is packets whose numbers belong together: a TCP connection, or requests to a queue pair,
// or its responses.
type stream struct {
	protocol Protocol
	to       uint32 // ports, or a queue pair's number
	response bool
}

// found is what is read in a packet.
type found struct {
	protocol Protocol
	stream   *seen // nil if it has no data
	from, to int64 // its numbers, as the stream extends them
}

const (
	protoTCP = 6
	protoUDP = 17
)

var be = binary.BigEndian

// count is the count that a packet belongs to.
func (k *book) count(f found) *Count { return &k.counts[f.protocol] }

// enter counts a packet that has come.
func (k *book) enter(b []byte) found {
	f := k.read(b)
	c := k.count(f)
	c.In++
	c.Bytes += len(b)
	if s := f.stream; s != nil {
		c.Data++
		if f.from < s.top {
			c.Repeats++
			if s.has(f.from, f.to) {
				c.Needless++
			}
		}
		s.top = max(s.top, f.to)
	}
	return f
}

// delivers says that the link does not drop the packet.
func (k *book) delivers(f found) {
	if f.stream != nil {
		f.stream.add(f.from, f.to)
	}
}

// read finds out what a packet is.
func (k *book) read(b []byte) (f found) {
	f.protocol = Other
	if len(b) < ib.IPv4HeaderBytes || b[0]>>4 != 4 {
		return f
	}
	l4 := b[min(int(b[0]&15)*4, len(b)):]
	switch b[9] {
	case protoTCP:
		f.protocol = TCP
		if len(l4) < 20 {
			return f
		}
		if n := len(l4) - int(l4[12]>>4)*4; n > 0 {
			f.stream = k.stream(stream{TCP, be.Uint32(l4), false})
			f.from = f.stream.extend(be.Uint32(l4[4:]), 32)
			f.to = f.from + int64(n)
		}
	case protoUDP:
		if len(l4) < ib.UDPHeaderBytes+ib.BTHBytes+ib.ICRCBytes || be.Uint16(l4[2:]) != ib.UDPPort {
			return f
		}
		f.protocol = RoCE
		bth := l4[ib.UDPHeaderBytes:]
		op := ib.Opcode(bth[0])
		if !op.Known() || op.Info().Payload == ib.PayloadNone {
			return f
		}
		f.stream = k.stream(stream{RoCE, be.Uint32(bth[4:]) & ib.PSNMask, op.Info().Response})
		f.from = f.stream.extend(be.Uint32(bth[8:])&ib.PSNMask, 24)
		f.to = f.from + 1
	}
	return f
}

func (k *book) stream(id stream) *seen {
	s := k.streams[id]
	if s == nil {
		if k.streams == nil {
			k.streams = map[stream]*seen{}
		}
		s = &seen{}
		k.streams[id] = s
	}
	return s
}

// seen is which numbers of a stream have been delivered: a few runs of them, in order, for what is
// missing is little.
type seen struct {
	begun bool
	top   int64 // behind the last number that was sent
	runs  []run // delivered
}

// run is numbers from one to before another.
type run struct{ from, to int64 }

// maxRuns bounds what is remembered of holes. Older ones count as delivered.
const maxRuns = 4096

// extend makes one of the numbers that go on where those of so many bits begin again.
func (s *seen) extend(n uint32, bits int) int64 {
	if !s.begun {
		s.begun = true
		s.top = int64(n)
		return s.top
	}
	d := int64(n) - s.top
	span := int64(1) << bits
	d &= span - 1
	if d >= span/2 {
		d -= span
	}
	return s.top + d
}

// at is the first run that ends at a number or behind it.
func (s *seen) at(n int64) int {
	i := len(s.runs)
	for i > 0 && s.runs[i-1].to >= n { // what comes is near the end
		i--
	}
	return i
}

func (s *seen) has(from, to int64) bool {
	i := s.at(to)
	return i < len(s.runs) && s.runs[i].from <= from
}

func (s *seen) add(from, to int64) {
	i := s.at(from)
	k := i
	for k < len(s.runs) && s.runs[k].from <= to {
		from, to = min(from, s.runs[k].from), max(to, s.runs[k].to)
		k++
	}
	if i < k {
		s.runs[i] = run{from, to}
		s.runs = append(s.runs[:i+1], s.runs[k:]...)
		return
	}
	s.runs = append(s.runs, run{})
	copy(s.runs[i+1:], s.runs[i:])
	s.runs[i] = run{from, to}
	if len(s.runs) > maxRuns {
		s.runs[1].from = s.runs[0].from
		s.runs = append(s.runs[:0], s.runs[1:]...)
	}
}

// markable reports whether a packet says that it may be marked instead of dropped.
func markable(b []byte) bool { return len(b) >= ib.IPv4HeaderBytes && b[0]>>4 == 4 && b[1]&3 != 0 }

// mark marks it: congestion experienced.
func mark(b []byte) {
	old := be.Uint16(b)
	b[1] |= 3
	// RFC 1624: the checksum of a header in which one word has changed.
	be.PutUint16(b[10:], ^ib.InternetSum(uint32(^be.Uint16(b[10:]))+uint32(^old), b[:2]))
}
