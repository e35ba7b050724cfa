//go:build linux

package xdp

import (
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
)

// Accounts checks, when neither side is in use, that every frame is where the ledgers and lists
// say, and returns how many of those to send and to receive the kernel has.
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
				return 0, 0,
					fmt.Errorf("%d slots are free, %d with the kernel, of %d", len(q.slots), out, len(q.chunksOut))
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

// StoresIntoSpills counts the stores of the program into 8 bytes of its stack after a register's at
// their beginning.
func StoresIntoSpills() (n int, err error) {
	c := &programConfig{port: 4791, queues: 1}
	p, err := load(c)
	if err != nil {
		return 0, err
	}
	defer p.close()
	spilled := map[int16]bool{}
	for _, i := range p.assemble(c) {
		if i.Dst != asm.RFP || !i.OpCode.Class().IsStore() {
			continue
		}
		at := i.Offset &^ 7
		if spilled[at] {
			n++
		}
		if i.Offset == at && i.OpCode.Class() == asm.StXClass {
			spilled[at] = true
		}
	}
	return n, nil
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

// DetachProgram takes the program from the first interface, as another process may.
func (l *Link) DetachProgram() error { return l.ifaces[0].attached.Detach() }

// AttachAnother attaches the program to the first interface once more.
func (l *Link) AttachAnother() error {
	other, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: l.ifaces[0].program.prog, Interface: l.ifaces[0].index})
	if err == nil {
		err = other.Close()
	}
	return err
}

// CopyDescriptor keeps the program's descriptor open as a process that is being forked
// does, until release.
func (l *Link) CopyDescriptor() (release func() error, err error) {
	fd, err := unix.FcntlInt(uintptr(l.ifaces[0].attached.(interface{ FD() int }).FD()), unix.F_DUPFD_CLOEXEC, 0)
	return func() error { return unix.Close(fd) }, err
}

// Forge does what a kernel with a fault would: it has a chunk of the first queue come
// up in a ring once more than was handed over.
func (l *Link) Forge(what string) {
	q := l.ifaces[0].queues[0]
	switch what {
	case "received twice":
		forge(&q.rx, unix.XDPDesc{Addr: kernelHeadroom, Len: 60}, unix.XDPDesc{Addr: kernelHeadroom, Len: 60})
	case "received, but to send":
		forge(&q.rx, unix.XDPDesc{Addr: q.slotBase, Len: 60})
	case "received beyond its chunk":
		forge(&q.rx, unix.XDPDesc{Addr: chunkBytes - 10, Len: 60})
	case "sent, but was not handed over":
		forge(&q.comp, q.slotBase)
	case "sent, but to receive":
		forge(&q.comp, 0)
	case "given back twice": // by this process
		q.back = append(q.back, 0)
	}
}

func forge[T unix.XDPDesc | uint64](r *ring[T], entries ...T) {
	at := atomic.LoadUint32(r.prod)
	for i, v := range entries {
		r.entries[(at+uint32(i))&r.mask] = v
	}
	atomic.StoreUint32(r.prod, at+uint32(len(entries)))
}

// LoseSockets closes the sockets, as code with a fault elsewhere in the process may.
func (l *Link) LoseSockets() {
	for _, q := range l.rx.queues {
		unix.Close(q.fd)
	}
}

// Inject has the system calls of the sending side go through f.
func (l *Link) Inject(f *linktest.Faults) {
	for _, q := range l.rx.queues {
		q.kickSend = func(fd int) unix.Errno {
			if errno := f.Kick(); errno != 0 {
				return errno
			}
			return kickSend(fd)
		}
	}
}
