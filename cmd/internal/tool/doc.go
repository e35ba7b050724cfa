// Package tool is what the subcommands of cmd/roce have in common: their environment, the options
// that choose a device, the choice of a local address, and the progress line.
package tool
