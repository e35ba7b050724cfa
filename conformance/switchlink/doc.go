// Package switchlink puts a ether.Switch between a device and its link, so that checks can see,
// lose, double, hold back, damage, change and mark the device's packets, in both directions,
// where there is no cable to cut: against a peer on another machine.
//
// The switch has two ports. What the device sends enters at the one, Near; what leaves by the
// other, Far, goes out through the link. What the link has received enters at Far, and reaches the
// device when it leaves by Near. A rule that damages a packet on its way out makes it leave with
// the ICRC that it had; one that damages a packet on its way in makes it disappear, counted as one
// with a wrong ICRC, which is what a link does.
//
// A [Cable] puts a switch between two network interfaces instead, for two devices of other
// machines.
//
// # Frames
//
// The switch works on Ethernet frames. The link has only their UDP payload, so the headers before
// it are a reconstruction, which is right in all that the ICRC covers: see package roce/link/trace.
//
// # Concurrency
//
// A frame passes the switch in the goroutine that sends or receives it. What a rule has held
// back and what was injected leaves through a goroutine of the wrapper's, which Close ends.
package switchlink
