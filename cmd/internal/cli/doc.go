// Package cli is the command line of cmd/roce: it finds the subcommand, runs
// it until it ends or the user interrupts it, and turns its error into a
// message and an exit status.
package cli
