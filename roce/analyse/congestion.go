package analyse

import (
	"fmt"

	"github.com/goroce/goroce/roce/pcap"
)

// congested notes a packet that a switch has marked.
func (c *conn) congested(p *pcap.Packet, side int) {
	h := c.way[side]
	h.nCE++
	if h.ce == nil {
		h.ce = h.find(CEMarked, p.PSN, p.Frame)
		h.ce.QPN = p.DestQP
		h.ce.what = func(f *Finding) string {
			s := fmt.Sprintf("Switches have marked %d packets from %s: queues on the way are long.",
				h.nCE, h.requester())
			if h.nCNP == 0 {
				s += fmt.Sprintf(" %s sent no CNP about it here.", h.responder())
			}
			return s
		}
		return
	}
	h.ce.add(p.Frame)
}

// cut notes a CNP for the requester.
func (h *half) cut(p *pcap.Packet) {
	h.nCNP++
	if gap := p.AtNs - h.cnpAt; h.nCNP > 1 && (h.nCNP == 2 || gap < h.cnpGap) {
		h.cnpGap = gap
	}
	h.cnpAt = p.AtNs
	if h.cnp == nil {
		h.cnp = h.findBack(RateCut, p.PSN, p.Frame)
		h.cnp.what = func(f *Finding) string {
			return fmt.Sprintf("%s sent %s to %s: congestion was seen on the way, and a sender with DCQCN goes slower.",
				h.responder(), plural(h.nCNP, "congestion notification", "congestion notifications"), h.requester())
		}
		return
	}
	h.cnp.add(p.Frame)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "a " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
