package matrix

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/peer"
)

// The dimensions of the matrix.
var (
	allSizes = []int{0, 1, 255, 256, 257, 1023, 1024, 1025, 4096, 65536, maxSize}
	allMTUs  = []int{256, 512, 1024, 2048, 4096}
)

// typedOp is an operation on a transport service.
type typedOp struct {
	typ peer.Type
	op  peer.Opcode
}

// clause is where the specification has the operation. FLUSH and ATOMIC WRITE are in an annex.
func (t typedOp) clause() string {
	switch {
	case t.op == peer.OpAtomicWrite || t.op == peer.OpFlush:
		return "IBTA annex A19"
	case t.typ == peer.UC:
		return "IBTA 9.8.2"
	case t.typ == peer.UD:
		return "IBTA 9.8.3"
	case t.op == peer.OpRead:
		return "IBTA 9.4.4, 9.7"
	case t.op == peer.OpWrite || t.op == peer.OpWriteImm:
		return "IBTA 9.4.3, 9.7"
	case t.op == peer.OpFetchAdd || t.op == peer.OpCmpSwap:
		return "IBTA 9.4.5, 9.7"
	}
	return "IBTA 9.4.1, 9.7"
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
		return mtu == e.udMTU()
	}
	return e.Full || f == peer.V4 || mtu == 1024 || mtu == 4096
}

// udMTU is the path MTU of rows of UD, whose messages may be as long as the ports carry.
func (e *Env) udMTU() int {
	mtu := allMTUs[len(allMTUs)-1]
	for _, p := range []peer.Peer{e.Subject, e.Ref} {
		if p != nil && p.Caps().MaxMTU > 0 {
			mtu = min(mtu, p.Caps().MaxMTU)
		}
	}
	return mtu
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

// operationJobs makes the rows of all operations, sizes, path MTUs and families.
func (e *Env) operationJobs(r role) (jobs []job) {
	for _, f := range bothFamilies {
		for _, mtu := range allMTUs {
			for _, t := range typedOps {
				if !e.runsAt(t, f, mtu) {
					continue
				}
				var rows []Row
				for _, size := range e.sizesOf(t, f, mtu) {
					row := e.row("operations", t.String(), r)
					row.MTU, row.Size, row.Family, row.Authority = mtu, size, string(f), t.clause()
					rows = append(rows, row)
				}
				jobs = append(jobs, e.operation(rows, t, f, mtu))
			}
		}
	}
	return jobs
}

// operation is the job of one operation with all its sizes.
func (e *Env) operation(rows []Row, t typedOp, f peer.Family, mtu int) job {
	return job{rows: rows, run: func(p *pair) []Row { return e.runOp(p, e.wanted(rows), t, f, mtu) }, blind: true}
}

// wanted are those of the rows that were asked for.
func (e *Env) wanted(rows []Row) []Row {
	if e.Choose == nil {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row Row) bool { return !e.Choose(row) })
}

// runOp runs one operation with all its sizes over one connection; a failure gets the
// rest a new one.
func (e *Env) runOp(p *pair, list []Row, t typedOp, f peer.Family, mtu int) []Row {
	var c *conn
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	var rows []Row
	for _, row := range list {
		size := row.Size
		if why := lacks(t, p.req.p, p.rsp.p); why != "" {
			rows = append(rows, row.skipped(why))
			continue
		}
		// A message of UC and UD may get lost: see whileLost. One failure is rxe's own, and gets a
		// second try: see stalled.
		unstalled := func() (stalled bool, err error) {
			if c == nil {
				if c, err = p.connect(defaults(t.typ, f, mtu)); err != nil {
					return false, err
				}
			}
			tr := e.Wire.Trace(c.between())
			first, before := c.psn, p.overflows()
			err = c.transfer(t.op, size)
			tr.Stop()
			if err == nil {
				return false, nil
			}
			err = c.seen(p.excuseOverflow(err, t.typ, before), tr, first)
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
			return row.whileLost(p, defaults(t.typ, f, mtu), func() error {
				stalled, err := unstalled()
				if stalled {
					row.Retried = fmt.Sprintf("attempt 1 of 2: rxe stopped sending: %v", err)
					_, err = unstalled()
				}
				return err
			})
		})
		rows = append(rows, row.ended(err))
	}
	return rows
}
