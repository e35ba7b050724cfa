package rsocket

import (
	"encoding/binary"
	"fmt"
	"io"
)

// stream is the protocol state of a connection: no memory, no locks, no I/O.
// Completions come in through arrived and sent, messages to post come out of
// data, update, control, mapping and direct.
type stream struct {
	peer connData
	snd  sender
	rcv  receiver

	// recvAddr and recvKey are how the peer names the receive buffer.
	recvAddr uint64
	recvKey  uint32

	maps     []iomap // mappings that the peer made for us to write
	mapsSent int     // mappings that we told the peer of

	entry [iomapBytes]byte // of the list, while it is looked at

	ctrl  int // control messages on their way
	sends int // work requests on their way

	finSent  bool // we sent SHUTDOWN or DISCONNECT
	byeSent  bool // we sent DISCONNECT
	finRecvd bool // the peer sent SHUTDOWN or DISCONNECT
	byeRecvd bool // the peer sent DISCONNECT
}

// streamConfig is what a stream is made of.
type streamConfig struct {
	sendQueue int    // work requests
	recvQueue uint16 // credits
	sendBytes int
	recvBytes int
	iomaps    int
}

func (s *stream) init(c streamConfig, peer connData, recvAddr uint64, recvKey uint32) {
	*s = stream{peer: peer, recvAddr: recvAddr, recvKey: recvKey, maps: make([]iomap, c.iomaps)}
	s.snd.init(&s.peer, c.sendQueue-maxCtrl, c.sendBytes)
	s.rcv.init(&s.peer, c.recvBytes, c.recvQueue)
}

// listOrder is the order in which the peer writes our lists: we say that we
// are little-endian, whatever the machine.
var listOrder = binary.LittleEndian

// wrKind is what a send work request was, in the top byte of its ID.
type wrKind uint8

const (
	wrRecv   wrKind = iota
	wrData          // value: bytes of the send buffer to give back
	wrCtrl          // control message
	wrDirect        // part of a mapping's data, as wrData
	wrMap           // description of a mapping
	wrProbe         // of keep-alive
)

func wrID(k wrKind, v int) uint64         { return uint64(k)<<56 | uint64(uint32(v)) }
func splitID(id uint64) (k wrKind, v int) { return wrKind(id >> 56), int(uint32(id)) }

// message is a work request to post: a WRITE, with immediate unless plain.
type message struct {
	kind  wrKind
	imm   uint32
	plain bool
	to    sge // length is that of the data of wrData and wrDirect
	at    int // offset in the send buffer
	first int // bytes there; the others are at its start
	body  [iomapBytes]byte
	n     int // bytes of body
	held  int // bytes of the send buffer to give back
}

// arrived handles a message of the peer: its immediate, and how many bytes came
// with it. list is our list of grants and mappings; the peer may be writing another
// entry in place of the one that it tells of, so a read must give the one or the other.
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
			s.byeRecvd = s.byeRecvd || s.finSent // nobody has anything left to say
		}
	default:
		return &ProtocolError{fmt.Sprintf("reserved operation %d", o)}
	}
	return nil
}

// sent handles the completion of a work request.
func (s *stream) sent(id uint64) {
	k, v := splitID(id)
	s.sends--
	switch k {
	case wrCtrl, wrProbe:
		s.ctrl--
	case wrData, wrDirect:
		s.snd.room++
		s.snd.buf.pop(v)
	case wrMap:
		s.snd.room++
	}
}

// data makes a DATA message of n bytes, which s.snd.data has allowed.
func (s *stream) data(n int, m *message) {
	*m = message{kind: wrData, imm: immediate(opData, uint32(n)), to: s.snd.take(n)}
	s.hold(n, m)
}

// direct makes a WRITE of n bytes to addr, which s.snd.copied has allowed.
func (s *stream) direct(addr uint64, key uint32, n int, m *message) {
	s.snd.room--
	*m = message{kind: wrDirect, plain: true, to: sge{addr, key, uint32(n)}}
	s.hold(n, m)
}

// hold takes room in the send buffer, unless the bytes go inline.
func (s *stream) hold(n int, m *message) {
	s.sends++
	if n > inlineBytes {
		m.at, m.first = s.snd.buf.push(n)
		m.held = n
	}
}

// update makes the message that gives the peer credit, if one is due and can
// be sent.
func (s *stream) update(m *message) bool {
	if s.ctrl == maxCtrl || s.byeSent || s.finRecvd || !s.rcv.due() {
		return false
	}
	limit, off, slot := s.rcv.update()
	*m = message{kind: wrCtrl, imm: immediate(opSGL, uint32(limit))}
	if off >= 0 {
		sge{s.recvAddr + uint64(off), s.recvKey, uint32(s.rcv.half)}.put(m.body[:], s.peer.order())
		m.n = sgeBytes
		m.to = sge{s.peer.list.addr + uint64(slot)*sgeBytes, s.peer.list.key, sgeBytes}
	}
	s.ctrl++
	s.sends++
	return true
}

// canControl reports whether one more control message can be on its way.
func (s *stream) canControl() bool { return s.ctrl < maxCtrl }

// control makes a control message.
func (s *stream) control(v uint32, m *message) {
	*m = message{kind: wrCtrl, imm: immediate(opCtrl, v)}
	s.ctrl++
	s.sends++
	s.finSent = true
	s.byeSent = s.byeSent || v == ctrlDisconnect
}

// keepAlive makes the message that only asks the peer's adapter for an
// acknowledgement.
func (s *stream) keepAlive(m *message) {
	*m = message{kind: wrProbe, plain: true}
	s.ctrl++
	s.sends++
}

// owes reports whether messages with data are not acknowledged.
func (s *stream) owes() bool { return s.snd.room < s.snd.rooms }

// canMap reports whether a mapping can be told to the peer now.
func (s *stream) canMap() bool { return s.snd.credits() && s.snd.room > 0 }

// mapsLeft reports whether the peer can be told of one more mapping. Each costs
// a credit that is never given back, since receivers count DATA messages only
// (librdmacm): with half of them gone the stream would stand still.
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
	s.sends++
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
