package matrix

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/conformance/lab/wire"
)

// starvedTries is how often a program is run that a busy machine was too slow for.
const starvedTries = 3

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

// starved reports whether a program failed because a busy machine was slow:
//
//   - its retries ran out. In the pingpongs the ACK timeout is fixed, at 67 ms: half a second
//     without the other side's CPU is enough. On the lab's wire, which loses nothing unless
//     told, it is not a mistake of either side unless it happens again;
//   - the XDP socket of the program before has not gone. The kernel takes it down some
//     time after the process has ended.
func starved(detail string) bool {
	for _, s := range []string{"retry counter exceeded", "Failed status 12", "bind AF_XDP: device or resource busy"} {
		if strings.Contains(detail, s) {
			return true
		}
	}
	return false
}

// lastPackets is how many of the last packets are shown of a program that has failed.
const lastPackets = 60

// tryProgram is tryProgram of package level, with the last packets between two addresses in
// the detail of a failure.
func (e *Env) tryProgram(row *Row, tries int, between [2]netip.Addr, run func() (string, Result)) {
	tryProgram(row, tries, func() (detail string, result Result) {
		tr := e.Wire.TraceLast(lastPackets, func(p *wire.Packet) bool {
			return p.Src == between[0] && p.Dst == between[1] || p.Src == between[1] && p.Dst == between[0]
		})
		defer tr.Stop()
		// What may lose datagrams to a busy guest has it for itself.
		e.share(tries > 1, func() { detail, result = run() })
		if result == Fail {
			detail += "\nthe last packets:\n" + tr.Tail(lastPackets)
		}
		return detail, result
	})
}

// tryProgram runs a program until it passes, tries times at most, or more often if its retries
// run out. The row says what was seen before the last try.
func tryProgram(row *Row, tries int, run func() (string, Result)) {
	var seen []string
	for try := 1; ; try++ {
		row.Detail, row.Result = run()
		if row.Result != Fail || try >= tries && !(starved(row.Detail) && try < starvedTries) {
			break
		}
		seen = append(seen, fmt.Sprintf("try %d: %s", try, reason(row.Detail)))
	}
	row.Retried = strings.Join(seen, "; ")
}

// reason is the telling line of a failure's detail.
func reason(detail string) string {
	first, _, _ := strings.Cut(detail, "\n")
	for _, l := range strings.Split(detail, "\n") {
		if starved(l) {
			return strings.TrimSpace(l)
		}
	}
	return first
}
