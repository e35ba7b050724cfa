/*
 * The last wills of a process: what is said to the peers of its connections when it has ended, however it did.
 *
 * They are in a file in memory. The process has it mapped, and the mapping holds a lock of the file (flock): the kernel
 * drops it with the memory of the process, that is when the process has ended in any way, or has executed another
 * program. A helper, goroce_will, waits for the lock, and then sends what the file has. The mapping does not go to
 * children, and no descriptor keeps the lock, so nothing that the program does to its descriptors, its signals and its
 * children makes the helper speak too early, or too late.
 */
#ifndef GOROCE_WILL_H
#define GOROCE_WILL_H

#include <stdint.h>

#define GOROCE_WILL_BYTES 276 /* of a RoCE packet from BTH through payload: rdmacm.WillBytes */
#define GOROCE_MAX_WILLS 65536

/* A will counts while it is live. The rest is written while it is not. */
struct goroce_will {
	uint32_t live;
	uint32_t scope;	  /* interface of the addresses if they are link-local */
	uint8_t src[16], dst[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t packet[GOROCE_WILL_BYTES];
	uint8_t reserved[4];
};

struct goroce_wills {
	uint32_t used; /* of all */
	uint8_t reserved[60];
	struct goroce_will all[GOROCE_MAX_WILLS];
};

#endif
