// Package cli is the command line of cmd/roce: it finds the subcommand, runs it until it ends or
// the user interrupts it, and turns its error into a message and an exit status. Two subcommands
// are its own: the version, and what completes command lines in a shell.
package cli
