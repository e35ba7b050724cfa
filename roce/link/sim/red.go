package sim

// RED marks packets like a switch with random early detection: none below Kmin, all above Kmax, and
// between them with a probability that rises from 0 to Pmax. The queue is the one that the packet
// finds on arrival rather than an average, as in the DCQCN paper.
type RED struct {
	KminBytes, KmaxBytes int
	Pmax                 float64
}

// Mark is for [Pipe.Mark].
func (r RED) Mark(in MarkInput) bool {
	switch q := in.QueueBytes; {
	case q <= r.KminBytes:
		return false
	case q > r.KmaxBytes:
		return true
	default: // Kmin < q <= Kmax
		p := r.Pmax * float64(q-r.KminBytes) / float64(r.KmaxBytes-r.KminBytes)
		return in.Random < p
	}
}
