package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// doLocal executes a local operation. LOCAL_INV waits until everything before it is complete, so
// that no earlier request of this queue loses its key in flight (as in rdma_rxe; the strong
// ordering of IBTA 10.8.3.4). BIND_MW does not wait: later requests may use the window, earlier
// ones cannot. doLocal returns false if the request must wait or has failed.
func (sq *requester) doLocal(now int64, w *sendWQE) bool {
	qp, q := sq.qp, &sq.q
	table := qp.e.cfg.Mem
	switch w.op {
	case WRLocalInv:
		if q.cur != q.head {
			return false
		}
		if f := table.Invalidate(qp.pd, qp.num, ib.RKey(w.imm), false); f != mem.FaultNone {
			return sq.refuse(now, w, WCMWBindErr, uint32(f))
		}
	case WRBindMW:
		b := q.bindOf(q.cur)
		f := table.BindWR(qp.pd, qp.num, b.MW, b.NewRKey, mem.BindInfo{
			Region: b.Region, Addr: b.Addr, Length: b.Length, Access: b.Access,
		})
		*b = BindMW{}
		if f != mem.FaultNone {
			return sq.refuse(now, w, WCMWBindErr, uint32(f))
		}
	}
	w.state = wqeLocal
	return true
}
