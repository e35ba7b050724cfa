package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// rawSender makes packets of a stream that nobody looks into.
type rawSender struct {
	path  transport.Path
	batch [rawBatch]transport.TxPacket
	psn   uint32
}

// RawOpen opens the link of the ceiling.
func (n *Node) RawOpen(a LinkArgs, _ *struct{}) error {
	l, err := openLink(a)
	n.raw = l
	return err
}

// RawCapabilities says what the link of the ceiling does.
func (n *Node) RawCapabilities(_ struct{}, c *link.Capabilities) error {
	if n.raw == nil {
		return errors.New("no link is open")
	}
	*c = n.raw.Capabilities()
	return nil
}

// RawConnect says where the packets go.
func (n *Node) RawConnect(to netip.Addr, _ *struct{}) error {
	t := &n.rawTx
	*t = rawSender{path: transport.Path{Src: n.raw.Addrs()[0], Dst: to, HopLimit: 64, SrcPort: ib.UDPPort}}
	for i := range t.batch {
		p := &t.batch[i]
		p.Path, p.HeaderLen, p.NumFrags = &t.path, ib.BTHBytes, 1
		p.Header[0], p.Header[2], p.Header[3] = byte(ib.RCWriteMiddle), 0xFF, 0xFF
	}
	return nil
}

// fill makes packet i carry b.
func (t *rawSender) fill(i int, b []byte) {
	p := &t.batch[i]
	binary.BigEndian.PutUint32(p.Header[8:], t.psn&ib.PSNMask)
	t.psn++
	p.Frags[0], p.PayloadLen = b, uint16(len(b))
}

// push sends packets 0 to k-1, and what the network did not take at once.
func (n *Node) push(k int) {
	n.raw.Send(n.rawTx.batch[:k])
	for n.raw.Blocked() {
		yieldCPU()
		n.raw.Send(nil)
	}
}

func yieldCPU() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// RawServe takes packets and copies what is in them to memory until Stop. It counts
// payload bytes for the sender, and sends each packet back if asked to.
func (n *Node) RawServe(a ServeArgs, _ *struct{}) error {
	if n.raw == nil || a.Region <= ib.MTU4096.Bytes() || a.Region > RegionBytes {
		return fmt.Errorf("cannot run %+v", a)
	}
	var rx [128]transport.RxPacket
	off := 0
	n.serve(func(ctx context.Context) error {
		for {
			k, err := n.receive(ctx.Done(), rx[:], a.Wait, forever)
			if err != nil || k == 0 {
				return err
			}
			bytes := 0
			for i := range rx[:k] {
				b := rx[i].Data[ib.BTHBytes : len(rx[i].Data)-ib.ICRCBytes]
				if off+len(b) > a.Region {
					off = 0
				}
				copy(n.buf[off:], b)
				if a.Echo {
					n.rawTx.fill(0, n.buf[off:off+len(b)])
					n.push(1)
				}
				off += len(b)
				bytes += len(b)
			}
			n.counter.Add(uint64(bytes))
		}
	})
	return nil
}

// receive returns at least one packet; 0 when done is closed, or none has come for the time given.
func (n *Node) receive(done <-chan struct{}, rx []transport.RxPacket, w Waiting, limit time.Duration) (int, error) {
	idle := time.Now()
	for tries := 1; ; tries++ {
		if n.raw.Blocked() { // as when packets waited for a neighbour
			n.raw.Send(nil)
		}
		k, err := n.raw.Recv(rx)
		if err != nil || k > 0 {
			return k, err
		}
		select {
		case <-done:
			return 0, nil
		default:
		}
		if (tries%64 == 0 || w == WaitBlock) && time.Since(idle) > limit {
			return 0, nil
		}
		if w == WaitYield {
			yieldCPU()
			continue
		}
		if w == WaitPoll || w == WaitSpin && time.Since(idle) < rawSpin {
			if tries%16 == 0 {
				runtime.Gosched()
			}
			continue
		}
		if err := n.raw.Wait(blockNs); err != nil {
			return 0, err
		}
	}
}

// oracle tells how much of what was sent has been received.
type oracle struct {
	counter *atomic.Uint64
	base    uint64 // counter at the start, less what was lost
	sent    uint64
	lost    uint64
	spunNs  int64 // CPU time of this thread, waiting
}

// wait waits until no more than window bytes are under way.
func (o *oracle) wait(window uint64) {
	if o.sent-(o.counter.Load()-o.base) <= window {
		return
	}
	start, cpu := time.Now(), threadCPU()
	seen := o.counter.Load()
	for i := 1; o.sent-(o.counter.Load()-o.base) > window; i++ {
		if i%64 != 0 {
			continue
		}
		yieldCPU()
		if c := o.counter.Load(); c != seen {
			seen, start = c, time.Now()
		} else if time.Since(start) > rawStall {
			gone := o.sent - (c - o.base)
			o.lost += gone
			o.base -= gone
		}
	}
	o.spunNs += threadCPU() - cpu
}

// RawBulk sends the payload of messages, in packets of at most MTU bytes, for the time asked for.
func (n *Node) RawBulk(a RawArgs, r *BulkReply) error {
	if n.raw == nil || a.Size <= 0 || a.MTU <= 0 || a.Region < a.Size || a.Region > RegionBytes {
		return fmt.Errorf("cannot run %+v", a)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	size := min(a.Size, a.MTU)
	window := uint64(rawWindow)
	if size < 1024 { // small packets take more of a socket buffer than their bytes
		window /= 4
	}
	o := oracle{counter: n.counter, base: n.counter.Load()}
	start := time.Now()
	for off := 0; time.Since(start) < time.Duration(a.Ns); {
		for i := range rawBatch {
			if off+size > a.Region {
				off = 0
			}
			n.rawTx.fill(i, n.buf[off:off+size])
			off += size
		}
		o.wait(window - min(window, uint64(rawBatch*size)))
		n.push(rawBatch)
		o.sent += uint64(rawBatch * size)
	}
	o.wait(0)
	r.Ns = int64(time.Since(start))
	// In units of messages, which may be of several packets.
	r.Msgs = int((o.sent - o.lost) / uint64(a.Size))
	r.WaitCPU, r.Lost = float64(o.spunNs)/1e9, int(o.lost)/size
	return nil
}

// RawArgs describe what goes over the link of the ceiling.
type RawArgs struct {
	Size, MTU, Region int
	Ns                int64
}

// RawPing is Ping without a protocol. Messages are numbered, so that an echo that was
// given up is not taken for the next.
func (n *Node) RawPing(a PingArgs, r *PingReply) error {
	if a.Size < 8 {
		return fmt.Errorf("cannot run %+v", a)
	}
	took := make([]float64, 0, a.N)
	var rx [1]transport.RxPacket
	late := make(chan struct{})
	defer time.AfterFunc(giveUp, func() { close(late) }).Stop()
	lost := 0
	for begin, seq := time.Now(), uint64(1); len(took) < a.N && !a.over(begin, len(took)); seq++ {
		start := time.Now()
		binary.LittleEndian.PutUint64(n.buf, seq)
		n.rawTx.fill(0, n.buf[:a.Size])
		n.push(1)
		for {
			k, err := n.receive(late, rx[:], a.Wait, rawStall)
			if err != nil {
				return err
			}
			if k == 0 {
				// Nothing sends again what is lost, as when the neighbour was not known.
				if lost++; lost > maxLostEchoes {
					return fmt.Errorf("%d echoes were lost", lost)
				}
				break
			}
			copy(n.buf, rx[0].Data[ib.BTHBytes:])
			if binary.LittleEndian.Uint64(n.buf) == seq {
				took = append(took, half(start))
				break
			}
		}
	}
	*r = percentiles(took)
	return nil
}
