package fault

import (
	"slices"
	"sync"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// wrongICRC is xored into an ICRC to corrupt it: no identification explains the result, so a
// receiver that solves for one detects it as well.
const wrongICRC = 0xA5A5_5A5A

// Link is a link with faults.
type Link struct {
	link.Link

	mu    sync.Mutex // guards the rules; each side has its own packets
	rules []*rule

	// Sending side.
	txOut     []edge.TxPacket
	txDelayed []delayedTx

	// Receiving side.
	rxIn      []edge.RxPacket
	rxDelayed []delayedRx
	rxOut     []edge.RxPacket // to hand up, including copies
	rxNext    int
}

type delayedTx struct {
	left int
	p    edge.TxPacket
}

type delayedRx struct {
	left int
	p    edge.RxPacket
}

// New wraps l.
func New(l link.Link, rules ...Rule) *Link {
	f := &Link{Link: l}
	for _, r := range rules {
		f.Add(r)
	}
	return f
}

// Unwrap returns the link below.
func (f *Link) Unwrap() link.Link { return f.Link }

// Add adds a rule and returns its number. If several rules choose a packet the first acts.
func (f *Link) Add(r Rule) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, newRule(r))
	return len(f.rules) - 1
}

// Hits returns how many packets a rule has acted on.
func (f *Link) Hits(rule int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules[rule].hits
}

// choose returns the rule that acts on a packet. All rules see every packet, so their counts do not
// depend on each other.
func (f *Link) choose(dir Direction, p packetInfo) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found *Rule
	for _, r := range f.rules {
		if r.Dir == dir && r.choose(p) && found == nil {
			found = &r.Rule
		}
	}
	return found
}

// Send applies the rules and sends the resulting packets.
func (f *Link) Send(batch []edge.TxPacket) {
	out := f.txOut[:0]
	for i := range batch {
		p := &batch[i]
		before := len(f.txDelayed)
		switch r := f.choose(Send, txInfo(p)); {
		case r == nil:
			out = append(out, *p)
		case r.Action == Drop:
			continue
		case r.Action == Duplicate:
			out = append(out, *p, *p)
		case r.Action == Delay:
			f.txDelayed = append(f.txDelayed, delayedTx{max(r.Hold, 1), keepTx(p)})
			continue
		case r.Action == Corrupt:
			bad := *p
			bad.ICRCXor = wrongICRC
			out = append(out, bad)
		default:
			out = append(out, *p)
		}
		out = f.releaseTx(out, before)
	}
	f.Link.Send(out)
	clear(out)
	f.txOut = out[:0]
}

// releaseTx appends those of the first n delayed packets that are due.
func (f *Link) releaseTx(out []edge.TxPacket, n int) []edge.TxPacket {
	for i := range f.txDelayed[:n] {
		h := &f.txDelayed[i]
		if h.left--; h.left == 0 {
			out = append(out, h.p)
		}
	}
	f.txDelayed = slices.DeleteFunc(f.txDelayed, func(h delayedTx) bool { return h.left == 0 })
	return out
}

func txInfo(p *edge.TxPacket) packetInfo {
	h := p.Headers()
	if len(h) < ib.BTHBytes {
		return packetInfo{}
	}
	psn := ib.PSN(uint32(h[9])<<16 | uint32(h[10])<<8 | uint32(h[11]))
	return packetInfo{packetID{p.SrcQP, psn}, ib.Opcode(h[0])}
}

// keepTx copies a packet with its payload, which is gone when Send returns.
func keepTx(p *edge.TxPacket) edge.TxPacket {
	q := *p
	var data []byte
	for _, b := range p.Frags[:p.NumFrags] {
		data = append(data, b...)
	}
	q.Frags = [edge.MaxTxFrags][]byte{data}
	q.NumFrags = 1
	if len(data) == 0 {
		q.NumFrags = 0
	}
	return q
}

// CaughtUp reports whether everything that had arrived at the last Mark was handed up. Packets that
// a rule holds back do not count: they are on their way.
func (f *Link) CaughtUp() bool {
	return f.rxNext == len(f.rxOut) && f.Link.CaughtUp()
}

// Recv receives packets and applies the rules.
func (f *Link) Recv(batch []edge.RxPacket) (int, error) {
	for {
		if f.rxNext < len(f.rxOut) {
			n := copy(batch, f.rxOut[f.rxNext:])
			f.rxNext += n
			return n, nil
		}
		if cap(f.rxIn) < len(batch) {
			f.rxIn = make([]edge.RxPacket, len(batch))
		}
		n, err := f.Link.Recv(f.rxIn[:len(batch)])
		if n == 0 || err != nil {
			return 0, err
		}
		f.rxOut, f.rxNext = f.rxOut[:0], 0
		for i := range f.rxIn[:n] {
			f.receive(&f.rxIn[i])
		}
	}
}

func (f *Link) receive(p *edge.RxPacket) {
	before := len(f.rxDelayed)
	switch r := f.choose(Receive, rxInfo(p)); {
	case r == nil:
		f.rxOut = append(f.rxOut, *p)
	case r.Action == Drop, r.Action == Corrupt:
		return
	case r.Action == Duplicate:
		f.rxOut = append(f.rxOut, *p, *p)
	case r.Action == Delay:
		q := *p
		q.Data = append([]byte(nil), p.Data...)
		f.rxDelayed = append(f.rxDelayed, delayedRx{max(r.Hold, 1), q})
		return
	case r.Action == MarkCE:
		q := *p
		q.TrafficClass |= edge.ECNCE
		f.rxOut = append(f.rxOut, q)
	case r.Action == Mutate && r.Mutate != nil:
		q := *p
		q.Data = append([]byte(nil), p.Data...)
		mutate(r, q.Data)
		f.rxOut = append(f.rxOut, q)
	default:
		f.rxOut = append(f.rxOut, *p)
	}
	for i := range f.rxDelayed[:before] {
		h := &f.rxDelayed[i]
		if h.left--; h.left == 0 {
			f.rxOut = append(f.rxOut, h.p)
		}
	}
	f.rxDelayed = slices.DeleteFunc(f.rxDelayed, func(h delayedRx) bool { return h.left == 0 })
}

// mutate lets the rule change the decoded headers, which are written back, and the bytes.
func mutate(r *Rule, data []byte) {
	var p ib.Packet
	if p.Decode(data) != ib.DecodeOK {
		return
	}
	body := data[:len(data)-ib.ICRCBytes]
	before := p.HeaderLen
	r.Mutate(&p, body)
	if int(p.Opcode.Info().HeaderLen) == before {
		p.PutHeaders(body)
	}
}

func rxInfo(p *edge.RxPacket) packetInfo {
	if len(p.Data) < ib.BTHBytes {
		return packetInfo{}
	}
	d := p.Data
	return packetInfo{
		packetID{
			ib.QPN(uint32(d[5])<<16 | uint32(d[6])<<8 | uint32(d[7])),
			ib.PSN(uint32(d[9])<<16 | uint32(d[10])<<8 | uint32(d[11])),
		},
		ib.Opcode(d[0]),
	}
}
