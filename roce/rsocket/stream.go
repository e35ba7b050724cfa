package rsocket

import (
	"encoding/binary"
	"fmt"
	"io"
)

// stream is the protocol state of a connection: no memory, no locks, no I/O. Completions come in
// through arrived and sent; data, update, control, mapping and direct make the messages to post.
type stream struct {
	peer connData
	snd  sender
	rcv  receiver

	maps     []iomap // mappings that the peer made for us to write
	mapsSent int     // mappings that we told the peer of

	entry [iomapBytes]byte // of the list, while it is examined

	ctrl   int  // control messages on their way
	sends  int  // work requests on their way
	fins   int  // of these, SHUTDOWN and DISCONNECT
	owed   int  // bytes of data not known to be acknowledged
	failed bool // a request has failed: the others on their way will fail too

	finStaged bool // the end of the data waits behind staged data
	finSent   bool // we sent SHUTDOWN or DISCONNECT
	byeSent   bool // we sent DISCONNECT
	finRecvd  bool // the peer sent SHUTDOWN or DISCONNECT
	byeRecvd  bool // the peer sent DISCONNECT
}

// streamConfig configures a stream.
type streamConfig struct {
	sendQueue int    // work requests
	recvQueue uint16 // credits
	sendBytes int
	iomaps    int
}

// init starts the stream; recv is the first receive buffer.
func (s *stream) init(c streamConfig, peer connData, recv place) {
	*s = stream{peer: peer, maps: make([]iomap, c.iomaps)}
	s.snd.init(&s.peer, c.sendQueue-maxCtrl, c.sendBytes)
	s.rcv.init(&s.peer, recv, c.recvQueue)
}

// listOrder is the byte order in which the peer writes our lists: we announce little-endian,
// whatever the machine.
var listOrder = binary.LittleEndian

// wrKind is the kind of a send work request, in the top byte of its ID.
type wrKind uint8

const (
	wrRecv   wrKind = iota
	wrData          // bytes of the stream
	wrCtrl          // control message
	wrDirect        // part of a mapping's data
	wrMap           // description of a mapping
	wrProbe         // of keep-alive
	wrFin           // SHUTDOWN or DISCONNECT
	wrGrant         // control message with a grant, whose round trip matters
)

// tally is what the completion of a work request covers: itself, and earlier requests that make no
// completion.
type tally struct {
	messages int // places in the send queue
	held     int // bytes in the send buffer
	bytes    int // of data, held or not
}

// Bits of an ID. They fit a quarter of the longest queue, and the longest message behind
// quietBytes.
const (
	countBits = 15
	byteBits  = 23
)

// wrID returns the ID of a work request.
func wrID(k wrKind, t tally) uint64 {
	return uint64(k)<<(countBits+2*byteBits) | uint64(t.messages)<<(2*byteBits) |
		uint64(t.held)<<byteBits | uint64(t.bytes)
}

func splitID(id uint64) (wrKind, tally) {
	const most = 1<<byteBits - 1
	return kindOf(id), tally{int(id >> (2 * byteBits) & (1<<countBits - 1)), int(id >> byteBits & most), int(id & most)}
}

func kindOf(id uint64) wrKind { return wrKind(id >> (countBits + 2*byteBits)) }

// message is a work request to post: a WRITE, with immediate unless plain.
type message struct {
	kind  wrKind
	id    uint64
	imm   uint32
	plain bool
	quiet bool // makes no completion unless it fails
	to    sge  // its length is that of the data for wrData and wrDirect
	at    int  // offset in the send buffer
	first int  // bytes there; the others are at the buffer's start
	body  [iomapBytes]byte
	n     int // bytes of body
	held  int // bytes of the send buffer to give back
}

// arrived handles a message of the peer: its immediate, and how many bytes came with it. list is
// our list of grants and mappings. The peer may be overwriting the announced entry with a newer
// one, so a read must return either one whole.
func (s *stream) arrived(imm, n uint32, list io.ReaderAt) error {
	o, v := splitImmediate(imm)
	switch o {
	case opData:
		if n != v {
			return &ProtocolError{fmt.Sprintf("a message of %d bytes says it has %d", n, v)}
		}
		if s.finRecvd {
			return &ProtocolError{"data after the end of the data"}
		}
		return s.rcv.arrive(n)
	case opSGL:
		switch n {
		case 0:
			s.snd.update(uint16(v), nil)
		case sgeBytes:
			e := s.entry[:sgeBytes]
			if _, err := list.ReadAt(e, int64(s.snd.next*sgeBytes)); err != nil {
				return err
			}
			g := getSGE(e, listOrder)
			s.snd.update(uint16(v), &g)
		default:
			return &ProtocolError{fmt.Sprintf("a grant of %d bytes", n)}
		}
	case opIOMap:
		if int64(v) >= int64(len(s.maps)) || n != iomapBytes {
			return &ProtocolError{fmt.Sprintf("mapping %d of %d bytes; there are %d", v, n, len(s.maps))}
		}
		if _, err := list.ReadAt(s.entry[:], grants*sgeBytes+int64(v)*iomapBytes); err != nil {
			return err
		}
		s.maps[v] = getIOMap(s.entry[:], listOrder)
	case opCtrl:
		switch v {
		case ctrlDisconnect:
			s.finRecvd, s.byeRecvd = true, true
		case ctrlShutdown:
			s.finRecvd = true
		}
	default:
		return &ProtocolError{fmt.Sprintf("reserved operation %d", o)}
	}
	return nil
}

// sent handles the completion of a work request, and of those that it covers.
func (s *stream) sent(id uint64) {
	if s.failed {
		return
	}
	k, t := splitID(id)
	switch k {
	case wrFin:
		s.fins--
	case wrGrant:
		s.rcv.answered()
	}
	switch k {
	case wrFin, wrGrant, wrCtrl, wrProbe:
		s.sends--
		s.ctrl--
	}
	s.sends -= t.messages
	s.owed -= t.bytes
	s.snd.room += t.messages
	s.snd.buf.pop(t.held)
}

// ended records that nothing is on its way, once all completions were handled.
func (s *stream) ended() {
	if t := s.snd.quiet; t.messages > 0 {
		s.sent(wrID(wrData, t))
		s.snd.quiet = tally{}
	}
}

// fail records that a work request has failed: those on their way will also fail, each by itself.
func (s *stream) fail() { s.failed, s.sends, s.fins = true, 0, 0 }

// over reports whether neither side has anything left to say.
func (s *stream) over() bool { return s.byeRecvd || s.finSent && s.finRecvd }

// owes reports whether the peer's adapter may lack data, or its end, that it may still get.
func (s *stream) owes() bool {
	return !s.failed && (s.snd.room < s.snd.rooms || s.fins > 0 && !s.byeSent || s.stages())
}

// stages reports whether data, or its end, waits for the peer to read, and may still be sent.
func (s *stream) stages() bool { return (s.snd.staged > 0 || s.finStaged) && !s.byeRecvd && !s.byeSent }

// settled reports whether nothing is on its way that the peer would miss, including its goodbye.
func (s *stream) settled() bool { return !s.owes() && s.fins == 0 }

// number gives a message its ID. A message that is not quiet covers the quiet ones before it.
func (s *stream) number(m *message) {
	s.sends++
	m.id = wrID(m.kind, s.snd.quiet)
	if !m.quiet {
		s.snd.quiet = tally{}
	}
}

// numberControl does so for a control message, which covers only itself: a message of data may have
// its number without being posted yet.
func (s *stream) numberControl(m *message) {
	s.sends++
	s.ctrl++
	m.id = wrID(m.kind, tally{})
}

// data makes a DATA message of n bytes, which s.snd.data has allowed.
func (s *stream) data(n int, m *message) {
	*m = message{kind: wrData, imm: immediate(opData, uint32(n)), to: s.snd.take(n)}
	s.hold(n, m)
}

// stage enters n bytes of data that are in the send buffer already, to be sent later.
func (s *stream) stage(n int) {
	s.owed += n
	s.snd.stage(n)
}

// pour makes a DATA message of the first n staged bytes, which s.snd.pourable has allowed.
func (s *stream) pour(n int, m *message) {
	*m = message{kind: wrData, imm: immediate(opData, uint32(n)), to: s.snd.take(n), held: n}
	m.at, m.first = s.snd.pour(n)
	m.quiet = s.snd.keep(n, n)
	s.number(m)
}

// direct makes a WRITE of n bytes to addr, which s.snd.copied has allowed.
func (s *stream) direct(addr uint64, key uint32, n int, m *message) {
	s.snd.room--
	*m = message{kind: wrDirect, plain: true, to: sge{addr, key, uint32(n)}}
	s.hold(n, m)
}

// hold takes room in the send buffer, unless the bytes go inline.
func (s *stream) hold(n int, m *message) {
	if n > inlineBytes {
		m.at, m.first = s.snd.buf.push(n)
		m.held = n
	}
	s.owed += n
	m.quiet = s.snd.keep(n, m.held)
	s.number(m)
}

// update makes the message that gives the peer credit, if one is due and can be sent.
func (s *stream) update(m *message) bool {
	if s.ctrl == maxCtrl || s.byeSent || s.finRecvd || !s.rcv.due() {
		return false
	}
	limit, half, slot, asks := s.rcv.update()
	*m = message{kind: wrCtrl, imm: immediate(opSGL, uint32(limit))}
	if asks {
		m.kind = wrGrant
	}
	if half.length > 0 {
		half.put(m.body[:], s.peer.order())
		m.n = sgeBytes
		m.to = sge{s.peer.list.addr + uint64(slot)*sgeBytes, s.peer.list.key, sgeBytes}
	}
	s.numberControl(m)
	return true
}

// canControl reports whether one more control message can be on its way.
func (s *stream) canControl() bool { return s.ctrl < maxCtrl }

// fin makes the message that ends the data, or both directions. No call writes any more.
func (s *stream) fin(v uint32, m *message) {
	*m = message{kind: wrFin, imm: immediate(opCtrl, v)}
	s.number(m)
	s.ctrl++
	s.fins++
	s.finSent, s.finStaged = true, false
	s.byeSent = s.byeSent || v == ctrlDisconnect
}

// keepAlive makes the message that only asks the peer's adapter for an acknowledgement. If all
// messages of data are posted, it also covers the quiet ones.
func (s *stream) keepAlive(posted bool, m *message) {
	*m = message{kind: wrProbe, plain: true}
	if posted {
		s.number(m)
		s.ctrl++
	} else {
		s.numberControl(m)
	}
}

// awaited reports whether something is on its way whose completion will come.
func (s *stream) awaited() bool { return s.sends > s.snd.quiet.messages }

// canMap reports whether the peer can be told of a mapping now.
func (s *stream) canMap() bool { return s.snd.credits() && s.snd.room > 0 }

// mapsLeft reports whether the peer can be told of one more mapping. Each costs a credit that is
// never given back, because receivers count only DATA messages (librdmacm): without half of them
// the stream would stall.
func (s *stream) mapsLeft() bool { return s.mapsSent < int(s.peer.credits)/4 }

// mapping makes the message that describes a mapping in the peer's table.
func (s *stream) mapping(index int, im iomap, m *message) {
	*m = message{kind: wrMap, imm: immediate(opIOMap, uint32(index)), n: iomapBytes}
	m.to = sge{
		s.peer.list.addr + uint64(s.peer.list.length)*sgeBytes + uint64(index)*iomapBytes, s.peer.list.key, iomapBytes,
	}
	im.put(m.body[:], s.peer.order())
	s.snd.seq++
	s.snd.room--
	s.snd.quiet.messages++
	s.number(m)
	s.mapsSent++
}

// locate returns where byte off of the peer's mapped memory is.
func (s *stream) locate(off uint64) (addr uint64, key, n uint32, ok bool) {
	for i := range s.maps {
		if addr, n, ok = s.maps[i].find(off); ok {
			return addr, s.maps[i].sge.key, n, true
		}
	}
	return 0, 0, 0, false
}
