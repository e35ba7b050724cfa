// Package lab runs Linux kernels with rdma_rxe in QEMU guests, as a peer to test
// against, on a machine whose own kernel needs no RDMA support and no KVM.
//
// # Parts
//
// An Image is what a guest boots: the kernel, the modules and the user space of one Debian suite,
// fetched with apt into a private state directory, unpacked without being installed, and packed as
// an initramfs together with two programs of the lab's own: labd, the guest's init and command
// daemon, and verbsd, the verbs agent. Images are cached below conformance/.cache; a second run
// needs no network.
//
// A Lab is a set of guests around two Ethernet segments, each a switch of package
// wire with a tap of this machine on it: the segment under test (Host4, Host6 and
// the guests' eth0, MTU 9000) and the management segment (eth1), over which
// commands travel, so that faults on the first never cut the second.
//
// A Guest is one booted machine: Run, Start, Put, Get. A Host is a place of this machine on
// the segment under test, with a tap and a network namespace of its own.
//
// # Where it runs
//
// Enter moves the whole program into a network, process and mount namespace of its own before
// anything else happens. The namespaces have no name and end with their first process, so that a
// crash of the lab leaves no guest, tap or address behind. Root is used where it is there;
// otherwise a user namespace is, and what apt would have installed must be there already.
//
// # Concurrency
//
// Everything may be called from several goroutines. Every wait takes a context or
// has a limit in limits.go.
//
// # Limits
//
// The emulated CPU is slow (rxe moves 7 to 15 MB/s), so that only ratios between
// figures from the same guests mean anything. Guests have one CPU: QEMU 7.2 with two
// emulated ones panics in the kernel's code patching.
package lab
