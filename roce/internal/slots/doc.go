// Package slots lets many devices, of one process or of several, share a local address
// and UDP port. There is no daemon and no privilege, and nobody is in charge.
//
// An address has 64 slots. A device leases one, and all its queue pair numbers begin with the
// 6 bits of the slot, so that the kernel can tell by the packet which device it is for: the
// slots are UDP sockets of one SO_REUSEPORT group, and a program attached to the group
// chooses by destination queue pair number ([Steer] is the same in Go). Messages to queue pair 1
// are chosen by the communication ID in them, which begins with the same bits. Only requests
// (REQ, SIDR_REQ) name no slot. They come to one socket more, from which any device
// may read, and who does hands them on to the device that has announced the service.
//
// # Who holds what
//
// The first device at an address makes all sockets. It listens on Unix sockets that are named after
// the address, and gives all descriptors to each device that connects, the listening sockets among
// them: so every device at the address holds the same, and everyone accepts. When a process dies,
// by kill -9 or otherwise, nothing has to be taken over. No socket closes as long as any process
// lives, so the order of the group, which the program depends on, never changes; and with the last
// process all of it is gone. When all processes stand still a newcomer copies the descriptors
// without their help, where the kernel permits that, or learns who they are ([HeldError]).
//
// Leases and announcements are record locks (F_OFD_SETLK) on a memory file that is handed
// around, too. The kernel drops the locks of a process that dies, so there is no state that
// can be wrong. A lease that ends is a lock that is gone, and the file says when: the numbers of
// the slot rest for [RestNs] before the next device has them, and its sockets are drained. A socket
// that nobody leases drops what comes.
//
// # Who may
//
// Processes of one user: the kernel demands it of SO_REUSEPORT, and both ends of the Unix socket
// check it ([peer.Check]). A process that connects is asked nothing and told everything, in one
// message; so there is nothing that it could send, or keep the others waiting with. Processes of
// the user trust each other, as they may debug each other anyway; still what comes from there is
// checked, and the memory file is sealed.
//
// # Concurrency
//
// A Lease may be used from anywhere until it is closed, except that one goroutine at a time
// uses the buffer of HandOn.
package slots
