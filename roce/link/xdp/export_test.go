package xdp

import "fmt"

// Accounts checks, when neither side is in use, that every frame is where the
// ledgers and lists say, and returns how many of those to send and to receive the kernel
// has.
func (l *Link) Accounts() (sending, receiving int, err error) {
	for _, f := range l.ifaces {
		for _, q := range f.queues {
			if err := q.reclaim(); err != nil {
				return 0, 0, err
			}
			if err := q.giveBack(); err != nil {
				return 0, 0, err
			}
			sending += q.txLedger.away
			receiving += q.rxLedger.away
			out := 0
			for _, n := range q.chunksOut {
				if n > 0 {
					out++
				}
			}
			if len(q.slots)+out != len(q.chunksOut) {
				return 0, 0, fmt.Errorf("%d slots are free, %d with the kernel, of %d", len(q.slots), out, len(q.chunksOut))
			}
			seen := make(map[uint64]bool)
			for _, at := range q.slots {
				if seen[at] || q.chunksOut[(at-q.slotBase)/uint64(q.slotBytes)] != 0 {
					return 0, 0, fmt.Errorf("slot %#x is free twice, or in use", at)
				}
				seen[at] = true
			}
		}
	}
	return sending, receiving, nil
}

// Queues returns how many sockets the link has.
func (l *Link) Queues() int { return len(l.rx.queues) }

// CompleteTwice has the kernel's completion of a frame come up a second time.
func (l *Link) CompleteTwice() error {
	q := l.ifaces[0].queues[0]
	return q.txLedger.move(q.slotBase, ours)
}

// QueuesUsed returns how many sockets have sent anything.
func (l *Link) QueuesUsed() (n int) {
	for _, q := range l.rx.queues {
		if q.tx.next != 0 {
			n++
		}
	}
	return n
}
