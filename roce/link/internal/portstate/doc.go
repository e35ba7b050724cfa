// Package portstate works out the state of a link as a port: whether it is up, and the
// MTU that its interfaces carry ([Tracker]).
//
// # Concurrency
//
// Everything may be called from anywhere.
package portstate
