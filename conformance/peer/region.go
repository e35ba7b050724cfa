package peer

import (
	"fmt"
	"time"
)

// region is what a registration tells, on either side.
type region struct {
	addr       uint64
	n          int
	lkey, rkey uint32
}

func (r *region) Addr() uint64 { return r.addr }
func (r *region) Len() int     { return r.n }
func (r *region) LKey() uint32 { return r.lkey }
func (r *region) RKey() uint32 { return r.rkey }

// bindWait is how long a bind may take in a guest that has no CPU for a while.
const bindWait = time.Minute

// bound waits for the completion of a bind.
func bound(q QP) error {
	wc, err := q.PollSend(1, bindWait)
	if err != nil {
		return err
	}
	if len(wc) != 1 || wc[0].Status != Success {
		return fmt.Errorf("peer: bind: %v", wc)
	}
	return nil
}
