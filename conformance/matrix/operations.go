package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/peer"
)

// The dimensions of the matrix.
var (
	allSizes = []int{0, 1, 255, 256, 257, 1023, 1024, 1025, 4096, 65536, MaxSize}
	allMTUs  = []int{256, 512, 1024, 2048, 4096}
)

// typedOp is an operation on a transport service.
type typedOp struct {
	typ peer.Type
	op  peer.Opcode
}

func (t typedOp) String() string { return string(t.typ) + " " + t.op.String() }

var typedOps = []typedOp{
	{peer.RC, peer.OpSend}, {peer.RC, peer.OpSendImm}, {peer.RC, peer.OpSendInv},
	{peer.RC, peer.OpWrite}, {peer.RC, peer.OpWriteImm}, {peer.RC, peer.OpRead},
	{peer.RC, peer.OpFetchAdd}, {peer.RC, peer.OpCmpSwap}, {peer.RC, peer.OpAtomicWrite}, {peer.RC, peer.OpFlush},
	{peer.UC, peer.OpSend}, {peer.UC, peer.OpSendImm}, {peer.UC, peer.OpWrite}, {peer.UC, peer.OpWriteImm},
	{peer.UD, peer.OpSend}, {peer.UD, peer.OpSendImm},
}

// sizesOf returns the sizes that an operation is run with at an MTU.
func (e *Env) sizesOf(t typedOp, f peer.Family, mtu int) []int {
	switch {
	case t.op == peer.OpFetchAdd || t.op == peer.OpCmpSwap || t.op == peer.OpAtomicWrite:
		return []int{8}
	case t.typ == peer.UD:
		// One packet, up to the port's MTU; the path MTU is no attribute of a UD QP.
		return slices.DeleteFunc(slices.Clone(allSizes), func(n int) bool { return n > mtu })
	case t.op == peer.OpFlush:
		return []int{1, 4096, 65536}
	}
	if !e.Full && (mtu != 4096 && !(mtu == 1024 && f == peer.V4) || t.typ == peer.UC && mtu != 4096) {
		return allSizes[:len(allSizes)-1] // a megabyte takes a second at a small MTU
	}
	return allSizes
}

// runsAt reports whether an operation is run at an MTU and family.
func (e *Env) runsAt(t typedOp, f peer.Family, mtu int) bool {
	if t.typ == peer.UD {
		return mtu == 4096
	}
	return e.Full || f == peer.V4 || mtu == 1024 || mtu == 4096
}

// lacks names the side that does not have an operation.
func lacks(t typedOp, sides ...peer.Peer) string {
	for _, p := range sides {
		if t.op == peer.OpAtomicWrite && !p.Caps().AtomicWrite || t.op == peer.OpFlush && !p.Caps().Flush {
			return fmt.Sprintf("%s has no %v", p.Name(), t.op)
		}
	}
	return ""
}

// Operations runs the matrix of operations, sizes, path MTUs and families, with the
// subject in both roles.
func (e *Env) Operations(ctx context.Context) error {
	for _, r := range []role{requester, responder} {
		var jobs []job
		for _, f := range []peer.Family{peer.V4, peer.V6} {
			for _, mtu := range allMTUs {
				for _, t := range typedOps {
					if e.runsAt(t, f, mtu) {
						jobs = append(jobs, func(p *pair) []Row { return e.runOp(p, r, t, f, mtu) })
					}
				}
			}
		}
		if err := e.inLanes(ctx, r, 1, jobs); err != nil {
			return err
		}
	}
	return nil
}

// runOp runs one operation with all its sizes over one connection; a failure gets the
// rest a new one.
func (e *Env) runOp(p *pair, r role, t typedOp, f peer.Family, mtu int) []Row {
	var c *conn
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	var rows []Row
	for _, size := range e.sizesOf(t, f, mtu) {
		row := e.row("operations", t.String(), r)
		row.MTU, row.Size, row.Family = mtu, size, string(f)
		if why := lacks(t, p.req.p, p.rsp.p); why != "" {
			rows = append(rows, row.skipped(why))
			continue
		}
		// Nothing on the lab's wire loses packets, so that a message of UC and UD must arrive,
		// too. One failure is rxe's own, and gets a second try: see stalled.
		unstalled := func() (stalled bool, err error) {
			if c == nil {
				if c, err = p.connect(defaults(t.typ, f, mtu)); err != nil {
					return false, err
				}
			}
			tr := e.Wire.Trace(c.between())
			first := c.psn
			err = c.transfer(t.op, size)
			tr.Stop()
			if err == nil {
				return false, nil
			}
			defer func() {
				c.close()
				c = nil
			}()
			if errors.Is(err, errNoCompletion) && c.stalled(tr, first, size) {
				return true, err
			}
			return false, c.excuse(fmt.Errorf("%w\n%s", err, tr.Tail(200)), tr)
		}
		err := row.whileStarved(func() error {
			stalled, err := unstalled()
			if stalled {
				row.Retried = fmt.Sprintf("try 1: rxe stopped sending: %v", err)
				_, err = unstalled()
			}
			return err
		})
		rows = append(rows, row.ended(err))
	}
	return rows
}
