package matrix

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// patience is what perftest is told for its ACK timeout (-u): the code of 1.07 s. Its own 67 ms,
// seven times, is less than an emulated guest on a busy machine may stall.
const patience = "-u 18"

// withPatience adds it to the arguments of a program that takes it.
func withPatience(program string, args []string) []string {
	if !strings.HasPrefix(program, "ib_") {
		return args
	}
	return append(strings.Fields(patience), args...)
}

// busy reports whether a program found the XDP socket of the one before still there. The
// kernel takes it down some time after the process has ended.
func busy(detail string) bool {
	return strings.Contains(detail, "bind AF_XDP: device or resource busy")
}

// lastPackets is how many of the last packets are shown of a program that has failed.
const lastPackets = 60

// outcome is how a program's run ended.
type outcome struct {
	detail string
	result Result
	gaveUp []netip.Addr // those whose retries ran out
	// starved is set if the machine was too slow, and the run says nothing.
	starved bool
	wrong   bool // no standstill of the guest explains the failure
}

// tryProgram is tryProgram of package level, with the last packets between two addresses in
// the detail of a failure, and what they say of who is to blame. The second is the reference's.
// At least so many bytes must have gone between them: a program that says what is wanted need
// not have done it.
func (e *Env) tryProgram(row *Row, tries int, between [2]netip.Addr, bytes int, run func() outcome) {
	e.attempts(row, tries, func() (o outcome) {
		rec := record(e.Wire, between)
		defer rec.stop()
		tr := e.Wire.TraceLast(lastPackets, rec.isBetween)
		defer tr.Stop()
		// What may lose datagrams to a busy guest has it for itself.
		e.share(tries > 1, func() { o = run() })
		if moved := rec.moved(); o.result == Pass && moved < bytes {
			o = outcome{detail: fmt.Sprintf("%d bytes went over the wire, want %d or more: %s", moved, bytes, o.detail),
				result: Fail, wrong: true}
		}
		if o.result != Fail {
			return o
		}
		o.starved = busy(o.detail)
		if len(o.gaveUp) > 0 {
			var what string
			what, o.starved = starvation(rec.seen.report(), o.gaveUp, between[1], refPort{e})
			o.detail = what + "\n" + o.detail
		}
		if o.starved {
			e.starvation()
		}
		o.detail += "\nthe last packets:\n" + tr.Tail(lastPackets)
		return o
	})
}

// attempts is tryProgram of package level, with what is known of the guest, and the time that this
// run may spend on attempts.
func (e *Env) attempts(row *Row, tries int, run func() outcome) {
	var from time.Duration
	again := func() bool { return e.Report == nil || e.Report.Again(e.now()-from) }
	tryProgram(row, tries, again, func() outcome {
		from = e.now()
		return e.excused(run(), from)
	})
}

// starvation notes that a try was lost to a guest that stood still.
func (e *Env) starvation() { e.Report.Starvation(e.Kernel, e.Link, e.Wire.Now()) }

// refPort is the reference's port, which may be gone.
type refPort struct{ e *Env }

func (r refPort) SilentIn(from, to time.Duration) bool {
	port := r.e.Wire.Port(r.e.RefPort)
	return port != nil && port.SilentIn(from, to)
}

func (r refPort) MuteIn(from, to time.Duration, qps int) bool {
	port := r.e.Wire.Port(r.e.RefPort)
	return port != nil && port.MuteIn(from, to, qps)
}

func (r refPort) LongestSilences(from, to time.Duration) (frames, packets time.Duration) {
	if port := r.e.Wire.Port(r.e.RefPort); port != nil {
		return port.LongestSilences(from, to)
	}
	return 0, 0
}

// tryProgram runs a program until it passes, tries times at most, or more often if the
// machine was too slow. The row says what was seen before the last try.
//
// A row is inconclusive if the machine was too slow for each attempt, and a failure if one attempt
// failed and it was not. again says whether there is time for one more.
func tryProgram(row *Row, tries int, again func() bool, run func() outcome) {
	var seen []string
	starved := true // in each attempt
	for try := 1; ; try++ {
		o := run()
		row.Detail, row.Result = o.detail, o.result
		if o.starved {
			row.Starved++
		}
		starved = starved && o.starved
		if row.Result != Fail || try >= tries && !(o.starved && try < starvedTries && again()) {
			break
		}
		first, _, _ := strings.Cut(o.detail, "\n")
		seen = append(seen, attempted(try, max(tries, starvedTries), first))
	}
	if row.Result == Fail && starved {
		row.Result = Inconclusive
	}
	row.Retried = strings.Join(seen, "; ")
}

// starvedError is a failure for which the guest had no time.
type starvedError struct {
	error
	what string
}

func (e starvedError) Unwrap() error { return e.error }

// excuse returns err as a starvedError if it says that the requester's retries ran out, and the
// wire that the guest was not running.
func (c *conn) excuse(err error, tr *ether.Trace) error {
	var s statusError
	if !errors.As(err, &s) || s.Status != peer.RetryExcErr {
		return err
	}
	what, starved := starvation(delivered(tr.Events()), []netip.Addr{c.req.p.Addr(c.family)},
		c.env.Ref.Addr(c.family), refPort{c.env})
	if starved {
		c.env.starvation()
		return starvedError{err, what}
	}
	return fmt.Errorf("%s\n%w", what, err)
}

// whileStarved runs a check until it says something about the two sides, starvedTries times at
// most.
func (row *Row) whileStarved(check func() error) error {
	var seen []string
	for try := 1; ; try++ {
		err := check()
		var s starvedError
		if !errors.As(err, &s) {
			return err
		}
		row.Starved++
		if try == starvedTries {
			return err
		}
		seen = append(seen, attempted(try, starvedTries, s.what))
		row.Retried = strings.Join(seen, "; ")
	}
}
