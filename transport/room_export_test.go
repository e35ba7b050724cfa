package transport

import "net/netip"

// RoomUsed returns what is charged to budgets, for tests.
func (e *Engine) RoomUsed() int {
	n := 0
	for _, f := range e.flights {
		n += f.used
	}
	if e.reading != nil {
		n += e.reading.used
	}
	return n
}

// FlightSize returns the bound of what is on its way to an address.
func (e *Engine) FlightSize(to netip.Addr) int { return e.flights[to].size }

// PacketsInRuns returns how many received packets were handled as runs.
func (e *Engine) PacketsInRuns() uint64 { return e.run.all }
