// Package slots lets many devices, of one process or of several, share a local address and UDP
// port. It needs no daemon and no privilege, and no process is in charge.
//
// An address has 64 slots. A device leases one. All its queue pair numbers begin with the 6 bits of
// the slot, so the kernel can tell from a packet which device it is for: the slots are UDP sockets
// of one SO_REUSEPORT group, and a program attached to the group chooses the socket by destination
// queue pair number ([Steer] is the same in Go). For messages to queue pair 1 it chooses by the
// communication ID in them, which begins with the same bits. Only requests (REQ, SIDR_REQ) name no
// slot. They arrive at one further socket that any device may read; the reader hands each request
// on to the device that has announced the service.
//
// # Who holds what
//
// The first device at an address makes all sockets. It listens on Unix sockets named after the
// address and gives all descriptors, the listening sockets among them, to each device that
// connects. So every device at the address holds the same descriptors, and every device accepts.
// When a process dies, by kill -9 or otherwise, nothing has to be taken over. No socket closes
// while any of the processes lives, so the order of the group, which the program depends on, never
// changes. With the last process everything is gone. When all processes stand still, a newcomer
// copies the descriptors without their help where the kernel permits that; otherwise it learns
// which processes they are ([HeldError]).
//
// Leases and announcements are record locks (F_OFD_SETLK) on a memory file, which is handed around
// as well. The kernel drops the locks of a process that dies, so no stale state is left behind. A
// lease ends when its lock is released, and the file says when that was: the numbers of the slot
// rest for [RestNs] before the next device has them, and its sockets are drained. The socket of an
// unleased slot drops everything it receives.
//
// # Who may
//
// All processes must belong to one user: the kernel demands it for SO_REUSEPORT, and both ends of
// the Unix socket check it ([processes.Check]). A process that connects is asked nothing and told
// everything in one message, so it can send nothing harmful and cannot keep the others waiting.
// Processes of one user trust each other, as they may debug each other anyway; still, descriptors
// and packets from other processes are checked, and the memory file is sealed.
//
// # Concurrency
//
// A Lease may be used from any goroutine until it is closed, except that only one goroutine at a
// time may use the buffer of HandOn.
package slots
