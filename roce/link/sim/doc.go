// Package sim is a virtual network in one process: links on a [Fabric], whose clock moves only when
// something is to happen. It carries real bytes with real ICRCs, so a simulated receiver finds
// corruption on a simulated wire as a real one does.
//
// # Shape
//
//	host ── Up pipe ──> switch ── Down pipe ──> host
//
// Every link is a host with a pipe to the only switch and a pipe from it. A [Pipe] has a rate, a
// propagation delay, a bounded queue, and a hook that decides on ECN marks; [RED] is the usual one.
// The Down pipes are the ports of the switch: their queues can share a buffer (Config.BufferBytes),
// and [Link.QueueStats] tells how long they were. [Fabric.Route] leads packets over cables between
// further switches, [Trunk]s. Packets that do not fit are lost or, with Config.PFC, waited for.
// [Faults] between two addresses lose, duplicate, delay, reorder and corrupt packets;
// [Fabric.Partition] cuts a pair off.
//
// # Tests of applications
//
// [Test] runs a test of a program that uses the network with any number of goroutines: roce.Dial,
// Listen, Serve and Conn, rsocket, net/http over it, or verbs. What happens depends on the seed
// alone, and a minute of timeouts takes milliseconds:
//
//	func TestService(t *testing.T) {
//		sim.Test(t, sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.01}}, func(t *testing.T, net *sim.Fabric) {
//			host, err := net.Link(netip.MustParseAddr("192.0.2.1"))
//			if err != nil {
//				t.Fatal(err)
//			}
//			device, err := verbs.Open(verbs.Config{Link: host})
//			if err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(func() { device.Close() })
//			serve(t, device) // and so on: nothing else is special
//		})
//	}
//
// The package example is a complete test. [Config] says what goes wrong on the way, and so do
// [Fabric.Partition] and [Fabric.SetFaults] while the test runs. Two runs of a deterministic
// program have the same [Fabric.Transcript].
//
// The rules:
//
//   - The test runs in a bubble of [testing/synctest]. The network and the program share one clock,
//     that of package time in the bubble: deadlines of contexts, timers, time.Sleep, time.Now. It
//     stands still while any goroutine runs. When all wait, it moves to the next event.
//   - Goroutines that wait for the network take turns. When what a goroutine waits for has come, it
//     goes on once all others wait. If several can go on, they do so one after the other, in the
//     order in which they asked; those that ask at the same time go in the order in which they were
//     started. With Config.Shuffle the seed chooses, which finds dependencies on the order. Each
//     goes on until it waits again, for the network or anything else.
//   - A goroutine that is new, or that another one wakes (with a channel, say), runs at once. It
//     takes its turn when it comes to a call that may wait for the network: Dial, Accept, Send,
//     Recv, Read and the like, and the waits of verbs. Calls that do not wait take no turn:
//     PostSend, Close (of a roce.Conn without outstanding operations), Write of an rsocket with
//     room in its buffer. If several goroutines may come to such calls at the same time, they call
//     [Fabric.Turn] first.
//   - No goroutine may hold a mutex while it waits for the network, or for anything else, if others
//     may need that mutex meanwhile. This is a rule of synctest: waiting for a mutex does not count
//     as waiting, so no time passes. A channel of capacity 1 makes a lock that can be held. After a
//     minute of real time without progress the fabric prints what all goroutines do.
//   - A loop that polls a completion queue must sleep in between, if only for a nanosecond:
//     otherwise no time passes.
//   - Randomness in the program itself remains: the choice of a select with several ready cases,
//     the order of a map, and the order of functions of time.AfterFunc that are due at the same
//     nanosecond. So does the order of goroutines when the runtime stops one that has run for 10 ms
//     of real time, as on a busy machine. The garbage collector runs when all wait, unless a test
//     allocates 1 GiB in between.
//   - net/http repeats, also over TLS (with the keys fixed by testing/cryptotest), with two
//     exceptions. Server.Shutdown closes idle connections in the order of a map: let the clients
//     close theirs first. And it checks for the end of connections that are not idle, as all of
//     HTTP/2 are, at times from math/rand, which only a rand.Seed with GODEBUG=randseednop=0 fixes.
//     With HTTP/2 so many goroutines run at a time that this shows: 30 runs of a seed gave 2 to 5
//     transcripts on a busy machine.
//   - Everything must end before the test does: close devices and listeners, and wait for
//     goroutines. A test that leaves some behind, even sleeping ones, or in which all wait for
//     ever, fails and shows what they wait for. The tests after it go on.
//   - The fabric steps by itself: Step and Run panic. Do not call synctest.Wait either.
//   - Meanwhile the process uses one CPU (GOMAXPROCS is 1).
//
// Devices without a Config.Rand use [Fabric.Rand] there.
//
// # What it leaves out
//
// A device in a Test has no goroutine of its own that receives, looks for packets and sleeps, and
// nothing that it does takes time. The tests of this package run that part of a device on modelled
// threads and CPUs (threads_driver_test.go).
//
// # Time
//
// Outside of a Test, [Fabric.Step] takes the next event (a packet arrives, a timer is due), moves
// the clock to it and lets the device concerned handle it. Devices on a fabric have no goroutine. A
// call that waits, such as verbs.CQ.Wait, steps the fabric until it has what it waits for; if no
// event is left it blocks until another goroutine adds one. [Fabric.Run] steps from a test.
//
// Calls that wait are bounded by their context, in real time. Virtual time runs as fast as the CPU
// allows, so a protocol timeout of seconds takes no time.
//
// # Determinism
//
// In a Test, or if one goroutine makes all calls, a run depends on the seed alone, provided that
// the devices draw keys and numbers from [Fabric.Rand]. Events at the same instant happen in the
// order in which they were made.
//
// # Concurrency
//
// All methods may be called from any goroutine, except that functions given to the fabric (At,
// Pipe.Mark) must not step it.
package sim
