// Package conform runs the checks of package matrix between this module, on this machine, and a
// peer on another one, which runs a verbs agent: a network card, rxe, another goroce. It is "roce
// conform".
//
// # Who does the faults
//
// There is no box in the middle. This module is one of the two ends, so its own link does what a
// bad network would: package switchlink.
//
// # How a run ends
//
// Run returns a Result whatever happened. A row fails, with its reason, when the peer is lost in
// the middle of it, and the run goes on. When the context ends the rows so far are the result, and
// Result.Cut says why.
package conform
