/* What the files of rsockets share. */
#ifndef GOROCE_RSOCKET_H
#define GOROCE_RSOCKET_H

#include "cm.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

/*
 * struct rs is a socket. Its descriptor is a real one, so that its number is the program's until rclose, but only
 * the calls of librdmacm know what it is about. The structure belongs to the number and is never freed: a thread
 * that uses a socket while another one closes it gets EBADF.
 */
struct rs {
	atomic_uint handle; /* 0: the number is no socket */
	unsigned int born;  /* see goroce_foreign */
	atomic_int flags;   /* of F_SETFL */
	int fd_flags;	    /* of F_SETFD */
	int domain;
	/* What rgetsockopt returns. */
	int sndbuf, rcvbuf, sq_size, rq_size, inline_bytes, iomaps, tos, keepidle;
	int reuse, keepalive, oobinline, nodelay, v6only, linger_off;
	int error; /* SO_ERROR */
};

/* rs_fd.c */
struct rs *rs_find(int fd); /* NULL if it is none */
struct rs *rs_of(int fd);   /* NULL with EBADF; ENODEV in the child of a fork */
int rs_new(goroce_handle handle, int domain, int type, struct rs **made); /* the descriptor, or -1 with errno */
int rs_waker(void); /* the eventfd of this thread, or -1 with errno */
void rs_drain(int waker);

/* rs_poll.c: waits for one of the events, of poll or GOROCE_RS_DRAINED, of one socket; 0, or -1 with errno */
int rs_await(struct rs *s, uint32_t events, int timeout_ms);

static inline bool rs_nonblocking(struct rs *s) { return atomic_load(&s->flags) & O_NONBLOCK; }

#endif
