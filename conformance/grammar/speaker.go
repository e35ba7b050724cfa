package grammar

import (
	"github.com/goroce/goroce/ib"
)

// Memory is a region of the target that the speaker has been told of.
type Memory struct {
	Addr uint64
	Len  int
	Key  ib.RKey
	// What it may be used for.
	Read, Write, Atomic, Flush bool
}

// Conn is one connection, or pair of datagram queue pairs, as the speaker knows it.
type Conn struct {
	Type        ib.Transport
	Target, Own ib.QPN
	MTU         int
	QKey        ib.QKey
	Next        ib.PSN // of the speaker's next request
	Depth       int    // READs and atomics that the target serves at a time
	MostSend    int    // bytes of a SEND that find room, as a rule
	// Manners is how often what is said is a near-miss: one packet in so many; 0 is never.
	Manners int
	// Selective is set if the speaker says that it knows selective repeat.
	Selective bool
	// Dead is set when the target has ended the connection, as far as the speaker knows.
	Dead bool

	message message
	asked   []asked
	heard   ib.PSN   // behind the newest request of the target
	open    []ib.PSN // of READs and atomics that have no answer yet
	msn     ib.MSN   // of the target's requests that were answered
}

// message is a request of several packets that has begun.
type message struct {
	op   ib.Operation
	left int // bytes that are not sent yet
}

// asked is a packet of the target that has no answer yet.
type asked struct {
	op   ib.Operation
	psn  ib.PSN
	len  int // bytes that a READ asks for, and
	done int // those that are answered
	last bool
}

// mostAsked bounds what is remembered of the target's requests.
const mostAsked = 64

// Packet is something to say: from the BTH to the ICRC, whose place is there and whose value is
// not.
type Packet struct {
	Data         []byte
	TrafficClass uint8
	Conn         *Conn
	Stranger     bool // from another address than the speaker's
	BadICRC      bool
}

// Speaker is the far end of the target's connections.
type Speaker struct {
	d      *Dice
	Conns  []*Conn
	Memory []Memory
	CM     *CM // nil: does not speak it

	past     [pastPackets]said // what was said lately, and
	pastLen  int               // so much of it there is
	pastNext int
	held     []held
	payload  [8192]byte
	keptMap  [2 * mostAsked / 8]byte
	buf      []byte
	pk       ib.Packet

	// Kinds counts what was said.
	Kinds [numKinds]uint64
}

type said struct {
	data []byte
	conn *Conn
	tos  uint8
}

type held struct {
	said
	after int // so many more packets
}

const (
	pastPackets = 32
	mostHeld    = 8
)

// Kind is why something was said.
type Kind int

// The kinds.
const (
	Request Kind = iota
	Answer
	Again     // what was said before
	Overtaken // what was held back
	Lost      // what was not said at all
	NearMiss
	Management
	Noise
	numKinds
)

var kindNames = [numKinds]string{"requests", "answers", "again", "overtaken", "lost", "near-misses",
	"management", "noise"}

func (k Kind) String() string { return kindNames[k] }

// newSpeaker returns a speaker without connections.
func newSpeaker(d *Dice) *Speaker {
	s := &Speaker{d: d, buf: make([]byte, 0, 16384)}
	fill(s.payload[:], 0x0102030405060708)
	for i := range s.past {
		s.past[i].data = make([]byte, 0, 256)
	}
	return s
}

// Connect adds a connection, or makes one again: its PSNs are those that both ends were given.
func (s *Speaker) Connect(c *Conn, next, first ib.PSN) {
	c.Next, c.heard = next, first
	c.message, c.asked, c.open, c.msn, c.Dead = message{}, c.asked[:0], c.open[:0], 0, false
	c.Manners = [...]int{0, 0, 100, 8}[s.d.N(4)]
	c.Selective = s.d.OneIn(3)
	for _, x := range s.Conns {
		if x == c {
			return
		}
	}
	s.Conns = append(s.Conns, c)
}

// Say returns the next packet. Its data is valid until the next call. It reports false if what
// would have been said was lost.
func (s *Speaker) Say() (Packet, bool) {
	for i := range s.held {
		if s.held[i].after--; s.held[i].after <= 0 {
			h := s.held[i]
			s.held = append(s.held[:i], s.held[i+1:]...)
			s.Kinds[Overtaken]++
			return Packet{Data: h.data, Conn: h.conn, TrafficClass: h.tos}, true
		}
	}
	if s.CM != nil && s.d.OneIn(8) {
		s.Kinds[Management]++
		return s.CM.say(s), true
	}
	c := s.Conns[s.d.N(len(s.Conns))]
	x := s.d.Byte()
	switch {
	case x < 20 && s.pastLen > 0:
		p := &s.past[s.d.N(s.pastLen)]
		s.Kinds[Again]++
		return Packet{Data: p.data, Conn: p.conn, TrafficClass: p.tos}, true
	case x < 22 && c.Manners != 0:
		s.Kinds[Noise]++
		return s.noise(c), true
	case x < 120 && len(c.asked) > 0:
		s.Kinds[Answer]++
		s.answer(c)
	default:
		s.Kinds[Request]++
		s.request(c)
	}
	p := Packet{Conn: c}
	if s.d.OneIn(64) {
		p.TrafficClass = s.d.Byte() // also the marks of congestion
	}
	p.Data = s.encode()
	if c.Manners != 0 && s.d.OneIn(c.Manners) {
		s.Kinds[NearMiss]++
		s.spoil(c, &p)
	} else {
		s.remember(p)
	}
	if fate := s.d.Byte(); fate >= 250 {
		if fate < 252 || len(s.held) == mostHeld {
			s.Kinds[Lost]++
			return p, false
		}
		h := held{said{append([]byte(nil), p.Data...), c, p.TrafficClass}, 1 + s.d.N(6)}
		s.held = append(s.held, h)
		return p, false
	}
	return p, true
}

func (s *Speaker) remember(p Packet) {
	x := &s.past[s.pastNext]
	s.pastNext = (s.pastNext + 1) % pastPackets
	s.pastLen = min(s.pastLen+1, pastPackets)
	x.data, x.conn, x.tos = append(x.data[:0], p.Data...), p.Conn, p.TrafficClass
}

// encode makes the bytes of s.pk.
func (s *Speaker) encode() []byte {
	b := s.buf[:ib.MaxHeaderBytes]
	s.buf = append(b[:s.pk.PutHeaders(b)], s.pk.Payload...)
	for range int(s.pk.Pad) + ib.ICRCBytes {
		s.buf = append(s.buf, 0)
	}
	return s.buf
}

// begin sets s.pk to a packet of an opcode with n bytes of payload.
func (s *Speaker) begin(c *Conn, op ib.Opcode, psn ib.PSN, n int) *ib.Packet {
	s.pk = ib.Packet{BTH: ib.BTH{
		Opcode: op, PKey: ib.PKeyDefault, MigReq: true, DestQP: c.Target, PSN: psn, Pad: uint8(ib.PadFor(n)),
	}}
	s.pk.Payload = s.payload[:n]
	if c.Selective && op != ib.CNP {
		s.pk.Resv7 = ib.Resv7Selective
	}
	return &s.pk
}
