// Package sim is a virtual network in one process: links on a [Fabric], whose
// clock moves only when something is to happen. It carries real bytes with
// real ICRCs, so that what a simulated wire corrupts is found the way a real
// receiver finds it.
//
// # Shape
//
//	host ── Up pipe ──> switch ── Down pipe ──> host
//
// Every link is a host with a pipe to the one switch and a pipe from it. A
// [Pipe] has a rate, a propagation delay, a bounded queue, and a hook that
// decides on ECN marks; [RED] is the usual one. The Down pipes are the ports of
// the switch: their queues can share a buffer (Config.BufferBytes), and
// [Link.QueueStats] tells how long they were. [Fabric.Route] leads packets over
// cables between further switches, [Trunk]s, on their way. There is no priority flow
// control: what does not fit is lost. [Faults] between two addresses lose, duplicate, delay,
// reorder and corrupt packets; [Fabric.Partition] cuts a pair off.
//
// # Time
//
// [Fabric.Step] takes the next event (a packet arrives, a timer is due), moves
// the clock to it and lets the device concerned handle it. Devices on a fabric
// have no goroutine. A call that waits, such as roce.CQ.Wait, steps the fabric
// until it has what it waits for; if nothing is left to happen it blocks until
// another goroutine makes something happen. [Fabric.Run] steps from a test.
//
// Calls that wait are bounded by their context, in real time. Virtual time runs
// as fast as the CPU allows, so a protocol timeout of seconds takes no time.
//
// # Determinism
//
// If one goroutine makes all calls, and the devices draw keys and numbers from
// [Fabric.Rand], a run depends on the seed alone. Events at the same instant
// happen in the order in which they were made.
//
// # Concurrency
//
// All methods may be called from any goroutine, except that functions given to
// the fabric (At, Pipe.Mark) must not step it.
package sim
