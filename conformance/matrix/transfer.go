package matrix

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/peer"
)

// A transfer lies at an odd offset: alignment is nothing that either side may rely on.
// Atomics need 8 bytes of alignment.
const (
	dataOff   = guard + 3
	atomicOff = guard
)

// wcOps are the requester's completion opcodes.
var wcOps = map[peer.Opcode]int{
	peer.OpSend: peer.WCSend, peer.OpSendImm: peer.WCSend, peer.OpSendInv: peer.WCSend,
	peer.OpWrite: peer.WCWrite, peer.OpWriteImm: peer.WCWrite, peer.OpRead: peer.WCRead,
	peer.OpCmpSwap: peer.WCCmpSwap, peer.OpFetchAdd: peer.WCFetchAdd,
}

// transfer does one operation of the requester and checks everything that both sides can see of it.
func (c *conn) transfer(op peer.Opcode, size int) error {
	return peer.Steps(func() {
		switch op {
		case peer.OpSend, peer.OpSendImm, peer.OpSendInv:
			c.send(op, size)
		case peer.OpWrite, peer.OpWriteImm:
			c.write(op, size)
		case peer.OpRead:
			c.read(size)
		case peer.OpFetchAdd, peer.OpCmpSwap:
			c.atomic(op)
		case peer.OpAtomicWrite:
			c.atomicWrite()
		case peer.OpFlush:
			c.flush(size)
		default:
			peer.Must(fmt.Errorf("no check for %v", op))
		}
	})
}

// carryOut posts a request that takes the PSNs of a message of size bytes, and waits for its
// completion.
func (c *conn) carryOut(wr peer.SendWR, size int) {
	wr.Flags = peer.FlagSignaled
	peer.Must(c.rq.PostSend(wr))
	c.advance(size)
	peer.Must(c.sendDone(wr.Op, wr.ID))
}

// place fills the source range on one side, and the whole target range with its guards on
// the other.
func place(src peer.MR, dst peer.MR, off, size int, seed uint64) error {
	if err := src.Fill(off, size, seed, 0); err != nil {
		return err
	}
	return dst.Fill(off-guard, size+2*guard, seed+1, 0)
}

// verify checks the target: the data where it belongs and the guards untouched.
func verify(dst peer.MR, off, size int, seed uint64) error {
	return verifyParts(dst, partsOf(off, size, seed))
}

// part is a part of a target, and which part of a pattern it has.
type part struct {
	what         string
	off, n, base int
	seed         uint64
}

// partsOf are a guard, the data, and a guard.
func partsOf(off, size int, seed uint64) []part {
	return []part{
		{"guard before the data", off - guard, guard, 0, seed + 1},
		{"data", off, size, 0, seed},
		{"guard after the data", off + size, guard, guard + size, seed + 1},
	}
}

func verifyParts(dst peer.MR, parts []part) error {
	for _, r := range parts {
		bad, err := dst.Check(r.off, r.n, r.seed, r.base)
		if err != nil {
			return err
		}
		if bad >= 0 {
			b, _ := dst.Read(r.off+bad, 1)
			return wrong("%s: byte %d of %d is wrong (%#x)", r.what, bad, r.n, b)
		}
	}
	return nil
}

var errNoCompletion = errors.New("no completion")

// statusError is a completion with a status that was not wanted.
type statusError struct{ peer.WC }

func (e statusError) Error() string { return "completion " + e.WC.String() }

// endedError is a request that had to fail, and ended in another way.
type endedError struct {
	statusError
	want []peer.Status
}

func (e endedError) wanted() string {
	var names []string
	for _, s := range e.want {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

func (e endedError) Error() string {
	return fmt.Sprintf("the request ended with %v, want %s", e.Status, e.wanted())
}
func (e endedError) Unwrap() error { return e.statusError }

// await waits for one completion and checks ID and status.
func await(poll func(int, time.Duration) ([]peer.WC, error), id uint64, what string) (peer.WC, error) {
	return awaitFor(poll, opWait, id, what)
}

// awaitFor is await with a limit of its own.
func awaitFor(poll func(int, time.Duration) ([]peer.WC, error), within time.Duration, id uint64,
	what string) (peer.WC, error) {
	wc, err := poll(1, within)
	switch {
	case err != nil:
		return peer.WC{}, err
	case len(wc) == 0:
		return peer.WC{}, fmt.Errorf("%s: %w in %v", what, errNoCompletion, within)
	case wc[0].Status != peer.Success:
		return wc[0], fmt.Errorf("%s: %w", what, statusError{wc[0]})
	case wc[0].ID != id:
		return wc[0], fmt.Errorf("%s: completion %v, want id %d", what, wc[0], id)
	}
	return wc[0], nil
}

// sendDone waits for the requester's completion.
func (c *conn) sendDone(op peer.Opcode, id uint64) error {
	wc, err := await(c.rq.PollSend, id, "requester")
	if err != nil {
		return err
	}
	if want, ok := wcOps[op]; ok && wc.Opcode != want {
		return fmt.Errorf("requester: completion %v, want opcode %d", wc, want)
	}
	return nil
}

// sgl is a list for n bytes: none, one or (from 256 bytes on) two elements of odd length,
// so that gathering crosses packet borders at odd places.
func sgl(mr peer.MR, off, n int) []peer.SGE {
	switch {
	case n == 0:
		return nil
	case n < 256:
		return []peer.SGE{{MR: mr, Off: off, Len: n}}
	}
	k := n/3 | 1
	return []peer.SGE{{MR: mr, Off: off, Len: k}, {MR: mr, Off: off + k, Len: n - k}}
}
