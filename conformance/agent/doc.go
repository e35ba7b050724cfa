// Package agent is the verbs agent in Go: it serves the protocol of verbsd (lab/agent/verbsd.h)
// with this module's stack behind it, so that checks can have another goroce, in another process or
// on another machine, as their peer.
//
// # Sessions
//
// A connection is a session with objects of its own, which its end frees. The first line must be a
// hello with the protocol's version and, if the server has one, the token. Sessions of one client
// may be open at the same time; others are refused until the last of them has ended.
//
// # Bounds
//
// Whatever a client asks for, the agent registers only memory that it has allocated itself, and not
// more than Config.MaxBytes in all; a session has a limited number of objects, a line a limited
// length. Connections that have not said hello do not count as sessions. They end after 10 seconds,
// and the oldest ends when there are more than 64.
//
// # Trust
//
// The token goes over the network as it is: it keeps out programs that have the wrong agent, not
// somebody who listens. Run an agent on a network whose machines you trust, for the time of a run.
package agent
