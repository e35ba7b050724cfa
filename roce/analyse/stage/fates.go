package stage

import (
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Fate is what became of a packet that a host sent: what a capture on either host does not show.
type Fate struct {
	Frame     int // in the capture on the sender
	AtNs      int64
	Opcode    ib.Opcode
	QPN       ib.QPN // it is for
	PSN       ib.PSN
	Bytes     int // of payload
	ArrivedNs int64
	Arrived   int // the frame in the capture on the receiver; 0 if it was lost
}

// Lost reports whether the packet did not arrive.
func (f *Fate) Lost() bool { return f.Arrived == 0 }

type likeness struct {
	op  ib.Opcode
	qpn ib.QPN
	psn ib.PSN
}

// Fates returns what became of the packets that a host sent, in order, and the frames on the
// receiver that nobody sent: the network doubled a packet. Packets that are alike are told apart by
// time: one that arrived is the last that had been sent by then.
func (s *Stage) Fates(host int) (sent []Fate, doubled []int, err error) {
	like := map[likeness][]int{}
	err = s.Packets(View(host), func(p *pcap.Packet) {
		if p.Dir == pcap.Out && p.ICMP == nil {
			k := likeness{p.Opcode, p.DestQP, p.PSN}
			like[k] = append(like[k], len(sent))
			sent = append(sent,
				Fate{Frame: p.Frame, AtNs: p.AtNs, Opcode: p.Opcode, QPN: p.DestQP, PSN: p.PSN, Bytes: p.PayloadBytes})
		}
	})
	if err != nil {
		return nil, nil, err
	}
	var in []Fate // AtNs and Arrived are those of the arrival
	err = s.Packets(View(1-host), func(p *pcap.Packet) {
		if p.Dir == pcap.In && p.ICMP == nil {
			in = append(in, Fate{AtNs: p.AtNs, Opcode: p.Opcode, QPN: p.DestQP, PSN: p.PSN, Arrived: p.Frame})
		}
	})
	if err != nil {
		return nil, nil, err
	}
	var spare []Fate // arrivals of what was not sent so often
	for _, a := range slices.Backward(in) {
		candidates := like[likeness{a.Opcode, a.QPN, a.PSN}]
		i := len(candidates) - 1
		for ; i >= 0; i-- {
			if f := &sent[candidates[i]]; f.Lost() && f.AtNs < a.AtNs {
				f.Arrived, f.ArrivedNs = a.Arrived, a.AtNs
				break
			}
		}
		if i < 0 {
			spare = append(spare, a)
		}
	}
	// Of two that are alike the first is the packet, and the second its double.
	for _, a := range slices.Backward(spare) {
		for _, i := range like[likeness{a.Opcode, a.QPN, a.PSN}] {
			if f := &sent[i]; f.AtNs < a.AtNs && a.Arrived < f.Arrived {
				f.Arrived, a.Arrived = a.Arrived, f.Arrived
				f.ArrivedNs, a.AtNs = a.AtNs, f.ArrivedNs
			}
		}
		doubled = append(doubled, a.Arrived)
	}
	return sent, doubled, nil
}
