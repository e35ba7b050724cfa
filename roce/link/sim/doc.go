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
// # Tests of applications
//
// [Test] runs a test of a program that uses the network with as many goroutines as
// it likes: roce.Dial, Listen, Serve and Conn, rsocket, net/http over it, or verbs. What
// happens depends on the seed alone, and a minute of timeouts takes milliseconds:
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
// The example of the package is a whole one. [Config] says what goes wrong on the way, and so
// do [Fabric.Partition] and [Fabric.SetFaults] while the test runs. Two runs of a
// program that repeats have the same [Fabric.Transcript].
//
// The rules:
//
//   - The test runs in a bubble of [testing/synctest]. There is one clock for the network
//     and the program, that of package time in the bubble: deadlines of contexts, timers,
//     time.Sleep, time.Now. It stands still while any goroutine runs. When all wait, it
//     moves to the next thing that happens.
//   - Goroutines that wait for the network take turns. What a goroutine waits for may come;
//     it then goes on when all others wait. If several can go on, they do so one after the
//     other, in the order in which they asked. Those that ask at the same time are in the
//     order in which they were started. With Config.Shuffle the seed chooses, to find what
//     depends on the order. Each goes on until it waits again, for the network or anything else.
//   - A goroutine that is new, or that another one wakes (with a channel, say), runs at once. It
//     takes its turn when it comes to a call that may wait for the network: Dial, Accept, Send,
//     Recv, Read and the like, and the waits of verbs. Calls that do not wait take no turn:
//     PostSend, Close (of a roce.Conn, if all that was begun is done), Write of an rsocket with
//     room in its buffer. If several goroutines may come to those at the same time, they call
//     [Fabric.Turn] before.
//   - No goroutine may hold a mutex while it waits for the network, or for anything else, if
//     others may want that mutex meanwhile. This is a rule of synctest: who waits for a
//     mutex is not seen to wait, so that no time passes. A channel of capacity 1 makes
//     a lock that can be held. After a minute of real time without progress the fabric
//     prints what all goroutines do.
//   - A loop that polls a completion queue has to sleep in between, if only for a
//     nanosecond: time does not pass for it otherwise.
//   - What is random in the program itself stays so: the choice of a select with several cases that
//     are ready, the order of a map, and the order of functions of time.AfterFunc that are due at
//     the same nanosecond. So is the order of goroutines when the runtime stops one that has run
//     for 10 ms of real time, as on a busy machine. The garbage collector runs when all wait,
//     unless a test allocates 1 GiB in between.
//   - net/http repeats, over TLS too (with the keys fixed by testing/cryptotest), but for two
//     things. Server.Shutdown closes idle connections in the order of a map: have the clients close
//     theirs before. And it looks for the end of those that are not idle, as all of HTTP/2 are, at
//     times from math/rand, which only a rand.Seed with GODEBUG=randseednop=0 fixes. With HTTP/2 so
//     many goroutines run at a time that this shows: 30 runs of a seed gave 2 to 5 transcripts on a
//     busy machine.
//   - Everything must end before the test does: close devices and listeners, and wait for
//     goroutines. A test that leaves some behind, also such as sleep, or in which all wait for
//     ever, fails and shows what they wait for. The tests after it go on.
//   - The fabric steps by itself: Step and Run panic. Do not call synctest.Wait either.
//   - Meanwhile the process uses one CPU (GOMAXPROCS is 1).
//
// Devices without a Config.Rand use [Fabric.Rand] there.
//
// # Tests of the shell
//
// A Test leaves out what a device does on a real link: it has no goroutine of its own that
// receives, looks for packets and sleeps, and nothing that it does takes time. [TestThreads] runs
// all of that, on the CPUs and threads of [Machine]s with system calls, wake-ups, time slices,
// quotas and neighbours that cost what a [MachineConfig] says.
//
// # Time
//
// Outside of a Test, [Fabric.Step] takes the next event (a packet arrives, a timer is due), moves
// the clock to it and lets the device concerned handle it. Devices on a fabric
// have no goroutine. A call that waits, such as verbs.CQ.Wait, steps the fabric
// until it has what it waits for; if nothing is left to happen it blocks until
// another goroutine makes something happen. [Fabric.Run] steps from a test.
//
// Calls that wait are bounded by their context, in real time. Virtual time runs
// as fast as the CPU allows, so a protocol timeout of seconds takes no time.
//
// # Determinism
//
// In a Test, or if one goroutine makes all calls, and if the devices draw keys and
// numbers from [Fabric.Rand], a run depends on the seed alone. Events at the same instant
// happen in the order in which they were made.
//
// # Concurrency
//
// All methods may be called from any goroutine, except that functions given to
// the fabric (At, Pipe.Mark) must not step it.
package sim
