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
struct rs_mirror { /* rs_mirror.c: descriptors, + 1; 0: there is none */
	int mine, far;
};
struct rs {
	atomic_uint handle; /* 0: the number is no socket */
	unsigned int born;  /* see cm_foreign */
	atomic_int flags;   /* of F_SETFL */
	int fd_flags;	    /* of F_SETFD */
	int domain, type;
	/* What rgetsockopt returns. */
	int sndbuf, rcvbuf, sq_size, rq_size, inline_bytes, iomaps, tos, keepidle;
	int reuse, keepalive, oobinline, nodelay, v6only, linger_off, plain;
	int advice[5]; /* see rs_options.c */
	int rcv_ms, snd_ms; /* SO_RCVTIMEO, SO_SNDTIMEO; 0: none */
	int error; /* SO_ERROR */
	struct rs_mirror mirror;
	atomic_uint door; /* rs_door.c; 0: not known yet */
	/* For the child of a fork: what the socket was told. */
	bool used;   /* it has had a peer, which stays with the parent */
	int backlog; /* -1: it does not listen */
	struct sockaddr_storage *bound; /* NULL: to nothing */
};

/* rs_fd.c */
struct rs *rs_find(int fd); /* NULL if it is none */
struct rs *rs_of(int fd);   /* NULL with EBADF; ENODEV in the child of a fork */
void rs_note_bound(struct rs *s); /* after it has got an address */
int rs_new(goroce_handle handle, int domain, int type, struct rs **made); /* the descriptor, or -1 with errno */
int64_t rs_now_us(void); /* on a clock that nobody sets */
goroce_handle rs_thread(int *set); /* this thread, and the set of epoll by which it sleeps; 0 with errno */
uint32_t rs_comes(uint32_t doors); /* adds doors to those by which this thread comes to wait, and returns these */
void rs_slept(int set); /* comes after a poll of the set: a ring makes one edge */
bool rs_nest(int set);  /* has the program's set in the thread's, and no other one; -1: none. It may be impossible */
void rs_thread_lost(void);	       /* the set is closed */

/*
 * rs_door.c: the queues of threads before the Go half. There each of two that want the same lock would
 * cost some system calls. Each completion vector has a lock of its own, so calls that wait, send and
 * receive for the sockets of one vector are made one after the other, and those for different ones side by side. A
 * door is only a queue: who has waited for long comes in as well. Sets of doors are bits.
 */
uint32_t rs_door(struct rs *s); /* that of a socket */
uint32_t rs_all_doors(void);	/* those that any socket has */
void rs_enter(uint32_t doors);
void rs_leave(uint32_t doors);
const struct goroce_rs_door *rs_doors(void);
void rs_reopen(void); /* in the child of a fork */
#define RS_QUEUED(doors, name, ...)                       \
	({                                                \
		uint32_t doors_ = (doors);                \
		goroce_busy++;                            \
		rs_enter(doors_);                         \
		int result_ = rs->name(__VA_ARGS__);      \
		rs_leave(doors_);                         \
		goroce_left(result_);                     \
	})

/* rs_socket.c */
int rs_check_addr(const struct sockaddr *addr, socklen_t len); /* refuses what is no address, or a part of one */
void rs_in_family(const struct rs *s, struct sockaddr_storage *a); /* makes an address one that the socket's family can say */
int rs_give_addr(const struct sockaddr_storage *from, struct sockaddr *to, socklen_t *len); /* cut off if there is no room */

/* rs_io.c: waits until a socket that is blocking can be read, or written; 0, or -1 with errno, EAGAIN after SO_RCVTIMEO or
 * SO_SNDTIMEO */
int rs_await_io(struct rs *s, bool receive);

/* rs_datagram.c */
ssize_t rs_send_datagram(struct rs *s, const struct iovec *iov, int count, int flags, const struct sockaddr *to, socklen_t tolen);
ssize_t rs_recv_datagram(struct rs *s, const struct iovec *iov, int count, int flags, struct sockaddr *from, socklen_t *fromlen, int *msg_flags);

/* rs_poll.c: waits for one of the events, of poll or GOROCE_RS_DRAINED, of one socket; 0, or -1 with errno */
int rs_await(struct rs *s, uint32_t events, int timeout_ms);
/* rs_await_recv receives what there is, and waits for it: 0 or an errno, EAGAIN after SO_RCVTIMEO */
int rs_await_recv(struct rs *s, const struct iovec *iov, int count, int peek, size_t *n);

/* rs_mirror.c */
struct rs_mirror rs_mirror_take(struct rs *s);
void rs_mirror_close(struct rs_mirror m); /* after the descriptor of the socket */

/* rs_epoll.c */
bool rs_is_set(int fd);	       /* reports whether a descriptor is a set of epoll */
void rs_has_members(int set); /* notes that a socket is in a set */
void rs_has_none(int set);    /* the number is a new set's */

static inline bool rs_nonblocking(struct rs *s) { return atomic_load(&s->flags) & O_NONBLOCK; }

#endif
