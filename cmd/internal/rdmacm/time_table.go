package rdmacm

import "time"

// step is one of the phases of a connection that cmtime measures. The numbers
// of stepConnect and stepDisconnect travel, see syncConn.
type step uint8

const (
	stepFull step = iota
	stepCreateID
	stepBind
	stepResolveAddr
	stepResolveRoute
	stepCreateQP
	stepInitAttr
	stepInit
	stepRTRAttr
	stepRTR
	stepRTSAttr
	stepRTS
	stepConnect
	stepEstablish
	stepDisconnect
	stepDestroyID
	stepDestroyQP
	steps
)

var stepNames = [steps]string{
	"full connect", "create id", "bind addr", "resolve addr", "resolve route", "create qp", "init qp attr", "init qp",
	"rtr qp attr", "rtr qp", "rts qp attr", "rts qp", "cm connect", "establish", "disconnect",
	"destroy id", "destroy qp",
}

// span is the time that something took.
type span struct{ from, to time.Time }

func (s *span) start() { s.from = time.Now() }
func (s *span) end()   { s.to = time.Now() }

// us is the length in microseconds; ok is false if there is none.
func (s *span) us() (us uint64, ok bool) {
	if s.from.IsZero() || s.to.IsZero() {
		return 0, false
	}
	return uint64(s.to.Sub(s.from).Microseconds()), true
}

// spans are those of one connection, or of all of them together.
type spans [steps]span

// table prints the result of one test: for each step the time that all
// connections together took, and the sum and the extremes of the single ones.
func (s *side) table(label string, all *spans, conns []*timed) {
	n := uint64(len(conns))
	s.printf("%s        %10d\n", label, n)
	s.printf("threads        %10d\n", 1)
	s.printf("step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)\n")
	for i := range steps {
		var sum, most, least uint64
		first := true
		for _, c := range conns {
			us, ok := c.spans[i].us()
			if !ok {
				continue
			}
			sum, most = sum+us, max(most, us)
			if first || us < least {
				least = us
			}
			first = false
		}
		if i == stepFull {
			sum = 0 // they overlap
		}
		total, _ := all[i].us()
		s.printf("%-13s  %10d %10d %10d %10d %10d %10d\n", stepNames[i], total/n, total, sum/n, sum, most, least)
	}
}
