package node

import "github.com/goroce/goroce/internal/unix"

// Traffic is what a node's device has sent and received so far, and how often the kernel
// has switched away from its threads.
type Traffic struct {
	TxPackets, TxDatagrams, TxCalls uint64
	RxPackets, RxDatagrams, RxCalls uint64
	Messages                        uint64 // work requests completed
	Waits                           uint64 // times that a thread slept
}

// Traffic returns it; without a device only Waits.
func (n *Node) Traffic(_ struct{}, t *Traffic) error {
	if n.dev != nil {
		s, c := n.dev.LinkStats(), n.dev.Counters()
		*t = Traffic{
			TxPackets: s.TxPackets, TxDatagrams: s.TxDatagrams, TxCalls: s.TxCalls,
			RxPackets: s.RxPackets, RxDatagrams: s.RxDatagrams, RxCalls: s.RxCalls, Messages: c.RDMASends,
		}
	}
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return err
	}
	t.Waits = uint64(r.Nvcsw)
	return nil
}

// Minus is what there was between two calls.
func (t Traffic) Minus(o Traffic) Traffic {
	return Traffic{
		t.TxPackets - o.TxPackets, t.TxDatagrams - o.TxDatagrams, t.TxCalls - o.TxCalls,
		t.RxPackets - o.RxPackets, t.RxDatagrams - o.RxDatagrams, t.RxCalls - o.RxCalls,
		t.Messages - o.Messages, t.Waits - o.Waits,
	}
}

// Plus is what two nodes have together.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{
		t.TxPackets + o.TxPackets, t.TxDatagrams + o.TxDatagrams, t.TxCalls + o.TxCalls,
		t.RxPackets + o.RxPackets, t.RxDatagrams + o.RxDatagrams, t.RxCalls + o.RxCalls,
		t.Messages + o.Messages, t.Waits + o.Waits,
	}
}
