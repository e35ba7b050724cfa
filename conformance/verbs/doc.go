// Package verbs is the client of a verbs agent, in C (verbsd) or in Go (package agent): it turns
// calls into the agent's lines and back. The lines are described in
// lab/agent/verbsd.h; the numbers of opcodes, states and flags are those of libibverbs.
//
// A Client is one session: its end frees every object that it made. Calls from several
// goroutines are serialised.
package verbs
