package strict_test

import (
	"net/netip"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/pcap"
)

// wire is a conversation that a test writes packet by packet, as they pass at one place. A has
// queue pair 0x11 and sends the requests, B has 0x22 and answers; the names of B's own requests,
// and of A's answers, begin with "b".
type wire struct {
	all   []pcap.Packet
	now   int64
	mtu   int
	v6    bool
	label uint32
	dirA  pcap.Direction // of what A sends
	spoil func(*pcap.Packet, []byte) []byte
}

const (
	qpnA = ib.QPN(0x11)
	qpnB = ib.QPN(0x22)
)

func newWire() *wire { return &wire{mtu: 1024} }

func (w *wire) addr(i int) netip.Addr {
	if w.v6 {
		return netip.MustParseAddr([]string{"2001:db8::1", "2001:db8::2"}[i])
	}
	return netip.MustParseAddr([]string{"192.0.2.1", "192.0.2.2"}[i])
}

// put sends a packet from A (0) or B (1).
func (w *wire) put(from int, pk ib.Packet, n int, edit ...func(*pcap.Packet)) *wire {
	pk.PKey, pk.MigReq = ib.PKeyDefault, true
	if pk.DestQP == 0 {
		pk.DestQP = []ib.QPN{qpnB, qpnA}[from]
	}
	if pk.Payload == nil {
		pk.Payload = make([]byte, n)
	}
	pk.Pad = uint8(ib.PadFor(len(pk.Payload)))
	w.now += 10_000
	f := ib.Flow{Src: w.addr(from), Dst: w.addr(1 - from), SrcPort: 50000, DstPort: ib.UDPPort}
	p := pcap.Packet{Frame: len(w.all) + 1, AtNs: w.now, Flow: f, Packet: pk, FlowLabel: w.label, HopLimit: 64}
	for _, e := range edit {
		e(&p)
	}
	c := ib.NewICRC(f)
	p.Data = p.Append(nil, &c, 0)
	if w.spoil != nil {
		p.Data = w.spoil(&p, p.Data)
	}
	p.Bytes = len(p.Data)
	if w.dirA != pcap.Unknown {
		p.Dir = w.dirA
		if from == 1 {
			p.Dir = pcap.In + pcap.Out - w.dirA
		}
	}
	state := p.ICRC
	if len(p.Data) >= ib.BTHBytes {
		if err := p.Packet.Decode(p.Data); err != ib.DecodeOK {
			p.Problem = err.Error()
		}
	}
	p.PayloadBytes = len(p.Payload)
	if p.ICRC = state; state == pcap.ICRCUnchecked && p.Problem == "" {
		p.ICRC = pcap.ICRCRight
	}
	w.all = append(w.all, p)
	return w
}

func bth(op ib.Opcode, psn int) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: op, PSN: ib.PSN(psn) & ib.PSNMask}}
}

// ask is a request of A.
func (w *wire) ask(op ib.Opcode, psn, n int, edit ...func(*pcap.Packet)) *wire {
	pk := bth(op, psn)
	i := op.Info()
	pk.AckReq = i.Pos&ib.Last != 0 && i.Transport == ib.RC
	pk.RETH = ib.RETH{VA: 0x10000, RKey: 7, Len: uint32(n)}
	pk.Atomic = ib.AtomicETH{VA: 0x10000, RKey: 7}
	pk.DETH = ib.DETH{QKey: 0x11111111, SrcQP: qpnA}
	if i.Payload == ib.PayloadNone {
		n = 0
	}
	return w.put(0, pk, n, edit...)
}

// ack is an ACK of B, nak another answer without data.
func (w *wire) ack(psn, msn int, edit ...func(*pcap.Packet)) *wire {
	return w.nak(ib.ACKNoCredits, psn, msn, edit...)
}

func (w *wire) nak(s ib.Syndrome, psn, msn int, edit ...func(*pcap.Packet)) *wire {
	pk := bth(ib.RCAcknowledge, psn)
	pk.AETH = ib.AETH{Syndrome: s, MSN: ib.MSN(msn)}
	return w.put(1, pk, 0, edit...)
}

// data is a response with data of B.
func (w *wire) data(op ib.Opcode, psn, msn, n int, edit ...func(*pcap.Packet)) *wire {
	pk := bth(op, psn)
	pk.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: ib.MSN(msn)}
	return w.put(1, pk, n, edit...)
}

// bAsk is a WRITE of B, bAck A's ACK.
func (w *wire) bAsk(psn int) *wire {
	pk := bth(ib.RCWriteOnly, psn)
	pk.AckReq, pk.RETH = true, ib.RETH{VA: 0x20000, RKey: 9, Len: 8}
	return w.put(1, pk, 8)
}

func (w *wire) bAck(psn, msn int) *wire {
	pk := bth(ib.RCAcknowledge, psn)
	pk.AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: ib.MSN(msn)}
	return w.put(0, pk, 0)
}

// wait lets time pass.
func (w *wire) wait(ns int64) *wire { w.now += ns; return w }

// broken is the rules that a conversation breaks, each once, in the order of their packets; perhaps
// has those that are possible only.
func (w *wire) broken(o strict.Options) (certain, perhaps string) {
	rep := check(o, w.all)
	add := func(s *string, r strict.Rule) {
		for _, x := range strings.Fields(*s) {
			if x == string(r) {
				return
			}
		}
		*s = strings.TrimSpace(*s + " " + string(r))
	}
	for _, v := range rep.Violations {
		if v.Certain {
			add(&certain, v.Rule)
		} else {
			add(&perhaps, v.Rule)
		}
	}
	return certain, perhaps
}
