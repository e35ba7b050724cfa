// Package simreport measures congestion control in the simulated fabric: the
// real engine on every host, real packets with real ICRCs, a switch with RED
// marking and a shared buffer, and a clock of its own.
//
// A [Scenario] is an incast: a number of senders, one flow each, to one
// receiver. [Run] plays it and returns a [Result]. [Experiments], [LossPage] and [ControlPage] are
// the sets from which docs/congestion is made, by make sim-report.
//
// A run is a function of its scenario, seed included: it gives the same figures
// on any machine, however slow. One goroutine does everything.
package simreport
