package matrix

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/internal/report"
)

// UC and UD have no acknowledgements: what the way or the receiver loses is lost by right, and
// nobody sends it again. So a message that did not arrive is tried again, and if it never arrives,
// single packets tell whether the way loses some. Only if it loses none the message's loss is held
// against anybody.

const (
	// lossyWait is how long the receiver of an unreliable message waits after the requester has
	// completed it.
	lossyWait = 5 * time.Second
	// lossyPacket is what each of its packets may take besides: an emulated guest on a busy machine
	// needs that.
	lossyPacket = time.Millisecond
	// lossyTries is how often such a message is sent.
	lossyTries = 3
	// The single packets that follow are as many as the message had, within these bounds. Queue
	// pairs hold 64 receives unless told.
	fewestSingles, mostSingles = 16, 48
)

// lostError is a message of UC or UD that did not arrive.
type lostError struct {
	error
	// came is how many of its packets came here, -1 if they are not seen here.
	came, packets int
}

func (e lostError) Unwrap() error { return e.error }

// inconclusiveError is a failure that says nothing of either side.
type inconclusiveError struct{ error }

func (e inconclusiveError) Unwrap() error { return e.error }

func (e *Env) lossyWait() time.Duration { return cmp.Or(e.wait, lossyWait) }

// isLost returns the lostError of an error that no slow machine explains.
func isLost(err error) (lostError, bool) {
	var s starvedError
	var l lostError
	return l, errors.As(err, &l) && !errors.As(err, &s)
}

// arrives waits for the receive of a message of so many packets whose requester has its completion.
func (c *conn) arrives(id uint64, packets int) (peer.WC, error) {
	if c.typ == peer.RC {
		return await(c.sq.PollRecv, id, "responder")
	}
	wc, err := awaitFor(c.sq.PollRecv, c.env.lossyWait()+time.Duration(packets)*lossyPacket, id, "responder")
	if errors.Is(err, errNoCompletion) {
		err = lostError{error: err, came: -1}
	}
	return wc, err
}

// partly reports whether a WRITE that is not there as a whole is there in part: each packet's bytes
// are either all new or all old. That is what the loss of a packet leaves behind; anything else is
// wrong.
func (c *conn) partly(dst peer.MR, size int, seed uint64) (bool, error) {
	whole := func(off, n int, seed uint64, base int) (bool, error) {
		bad, err := dst.Check(off, n, seed, base)
		return bad < 0, err
	}
	for _, g := range []int{dataOff - guard, dataOff + size} {
		if ok, err := whole(g, guard, seed+1, g-(dataOff-guard)); !ok || err != nil {
			return false, err
		}
	}
	for at := 0; at < size; at += c.mtu {
		n := min(c.mtu, size-at)
		fresh, err := whole(dataOff+at, n, seed, at)
		if err == nil && !fresh {
			fresh, err = whole(dataOff+at, n, seed+1, guard+at)
		}
		if !fresh || err != nil {
			return false, err
		}
	}
	return true, nil
}

// seen adds to a lostError how many of the packets since a PSN have come here, if the receiver is
// here.
func (c *conn) seen(err error, tr *ether.Trace, first uint32) error {
	l, lost := isLost(err)
	if !lost {
		return err
	}
	l.packets = int((c.psn - first) & psnMask)
	if _, here := c.rsp.p.(interface{ Overflows() uint64 }); here && tr.Lost() == 0 {
		psns := map[uint32]bool{}
		for _, e := range tr.Events() {
			if e.Delivered() && e.Pkt.QPN == c.sq.QPN() && (e.Pkt.PSN-first)&psnMask < uint32(l.packets) {
				psns[e.Pkt.PSN] = true
			}
		}
		l.came = len(psns)
	}
	return l
}

// whileLost runs a check of an unreliable message until the message arrives, lossyTries times at
// most, and judges it if it never does.
func (row *Row) whileLost(p *pair, par params, check func() error) error {
	var seen []string
	for try := 1; ; try++ {
		from := p.env.now()
		err := check()
		l, lost := isLost(err)
		if !lost {
			return err
		}
		again := p.env.Report.Again(p.env.now() - from)
		if try < lossyTries && again {
			first, _, _ := strings.Cut(err.Error(), "\n")
			seen = append(seen, attempted(try, lossyTries, first))
			row.Retried = strings.Join(seen, "; ")
			continue
		}
		asked := min(max(l.packets, fewestSingles), mostSingles)
		arrived, e := p.singles(par, asked)
		if e != nil {
			return fmt.Errorf("%w\nsingle packets, to see whether the way loses some: %w", err, e)
		}
		what, by := l.verdict(try, asked, arrived)
		if !again {
			what += "; there was no time for another try"
		}
		if err = fmt.Errorf("%s\n%w", what, err); by {
			err = inconclusiveError{err}
		}
		return err
	}
}

// verdict says what it means that a message did not arrive in some tries, while of so many single
// packets so many arrived. byRight is set if a loss explains it.
func (e lostError) verdict(tries, asked, arrived int) (what string, byRight bool) {
	what = fmt.Sprintf("a message of %s did not arrive, %s", report.NumberOf(e.packets, "packet"),
		report.NumberOf(tries, "time"))
	singles := fmt.Sprintf("of %d single packets that were sent at once %d arrived", asked, arrived)
	switch {
	case e.came == e.packets:
		return what + ", although all of its packets came here", false
	case arrived == 0:
		return what + ", and " + singles + ": that is no loss by chance", false
	case arrived < asked:
		return what + ", but " + singles + ": packets get lost on the way or at the receiver, which UC and UD allow",
			true
	case e.packets > mostSingles:
		return what + ", but " + singles + ": it may be more than the receiver takes at once, which UC and UD allow",
			true
	}
	return what + ", but " + singles + ": nothing else gets lost", false
}

// singles sends so many messages of a packet each at once, and returns how many arrive.
func (p *pair) singles(par params, n int) (arrived int, err error) {
	c, err := p.connect(par)
	if err != nil {
		return 0, err
	}
	defer c.close()
	room := par.mtu
	if c.typ == peer.UD {
		room += udGRH
	}
	for i := range n {
		if err := c.sq.PostRecv(peer.RecvWR{
			ID: uint64(i), SGL: []peer.SGE{{MR: c.rsp.arena, Off: dataOff, Len: room}},
		}); err != nil {
			return 0, err
		}
	}
	for i := range n {
		err := c.rq.PostSend(peer.SendWR{
			ID: uint64(i), Op: peer.OpSend, Flags: peer.FlagSignaled, SGL: sgl(c.req.arena, dataOff, par.mtu),
			Family: c.family, Remote: c.rsp.p.Addr(c.family), RemoteQPN: c.sq.QPN(), RemoteQKey: qkey,
		})
		if err != nil {
			return 0, err
		}
	}
	for i := range n {
		if err := c.sendDone(peer.OpSend, uint64(i)); err != nil {
			return 0, err
		}
	}
	for arrived < n {
		wc, err := c.sq.PollRecv(n-arrived, c.env.lossyWait())
		if err != nil || len(wc) == 0 {
			return arrived, err
		}
		arrived += len(wc)
	}
	return arrived, nil
}
