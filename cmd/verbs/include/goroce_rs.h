/*
 * The contract between librdmacm.so.1 and the Go half for sockets over RDMA. The rules of goroce_core.h hold.
 * No function waits: what cannot be done now is EAGAIN, and poll says when to try again.
 */
#ifndef GOROCE_RS_H
#define GOROCE_RS_H

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/epoll.h>
#include "goroce_core.h"

/* Counts the changes of this file: both halves have to be of one build. */
#define GOROCE_RS_VERSION 11

/* A bit of poll beside those of poll(2): the peer's adapter has all that was written. */
#define GOROCE_RS_DRAINED 0x10000

/* How long a socket that was closed goes on until the peer's adapter has what was written: as Close of package rsocket. */
#define GOROCE_RS_LINGER_MS 30000

/* How often shutdown is to be tried again until then. */
#define GOROCE_RS_ASK_MS 20

enum goroce_rs_how { GOROCE_RS_LOOK, GOROCE_RS_AWAIT, GOROCE_RS_SLEPT, GOROCE_RS_LEAVE };

/* A socket that is asked about: which of the events of poll(2), or GOROCE_RS_DRAINED, there are, and whether POLLERR, POLLHUP or POLLNVAL. */
struct goroce_rs_item {
	goroce_handle socket;
	uint32_t events, revents;
};

/* A door to the Go half, for the sockets of one completion vector, and how many threads wait before it. */
#define GOROCE_RS_DOORS 8
struct goroce_rs_door {
	_Alignas(64) int32_t outside;
	int32_t taken;
};

/* A thread. set is a set of epoll with an eventfd, event, in it. The thread closes both when it ends: gone is 1 then, and 2 when
 * nobody uses them any more. came has a bit for each of the doors by which the thread has come to wait. */
struct goroce_rs_thread {
	int32_t gone, users;
	int set, event;
	uint32_t came;
	const struct goroce_rs_door *doors;
};

enum goroce_rs_option {
	GOROCE_RS_SNDBUF,   /* bytes */
	GOROCE_RS_RCVBUF,   /* bytes */
	GOROCE_RS_SQSIZE,   /* messages */
	GOROCE_RS_RQSIZE,   /* messages */
	GOROCE_RS_IOMAPS,   /* mappings */
	GOROCE_RS_TOS,	    /* traffic class */
	GOROCE_RS_REUSE,    /* bits: 1 for SO_REUSEADDR, 2 for SO_REUSEPORT */
	GOROCE_RS_V6ONLY,   /* bool */
	GOROCE_RS_KEEPALIVE, /* seconds; 0: the default; negative: none */
	GOROCE_RS_PLAIN,    /* bool: datagrams also go without headers, to peers that know nothing of rsockets */
	GOROCE_RS_BLOCKS,   /* the stream blocks, and so a program mostly has a thread for each; once set, for all of them */
};

struct goroce_rs {
	uint32_t version; /* GOROCE_RS_VERSION */
	uint32_t size;	  /* of this structure */

	/* create: AF_INET or AF_INET6, and SOCK_STREAM or SOCK_DGRAM. */
	int (*create)(int domain, int type, goroce_handle *socket);
	int (*bind)(goroce_handle socket, const struct sockaddr *addr);
	int (*listen)(goroce_handle socket, int backlog, int parent); /* parent: as listen_id of goroce_cm.h */
	int (*accept)(goroce_handle listener, goroce_handle *socket);
	/* connect begins; connected is EINPROGRESS until it knows the result. */
	int (*connect)(goroce_handle socket, const struct sockaddr *addr);
	int (*connected)(goroce_handle socket);
	/* recv: *n is 0 at the end of the data. */
	int (*recv)(goroce_handle socket, const struct iovec *iov, int count, int peek, size_t *n);
	/* recv_wait waits as poll does: EAGAIN tells the thread to sleep. */
	int (*recv_wait)(goroce_handle socket, const struct iovec *iov, int count, int peek, goroce_handle thread, int how, size_t *n);
	int (*send)(goroce_handle socket, const struct iovec *iov, int count, size_t *n);
	/* thread makes a thread known that is to wait. t is on the heap, and the Go half's to free. */
	int (*thread)(struct goroce_rs_thread *t, int number, goroce_handle *thread);
	/*
	 * poll returns for how many of the sockets there is something. It does not sleep: if there is nothing, a thread that waits sleeps
	 * until its set can be read, and then calls again, with GOROCE_RS_SLEPT. One that does not, since it is interrupted or late, calls
	 * with GOROCE_RS_LEAVE. Without a thread poll looks once.
	 */
	int (*poll)(struct goroce_rs_item *items, size_t n, goroce_handle thread, int how);
	int (*shutdown)(goroce_handle socket, int how);
	/* close ends a socket for the program. What the peer's adapter has not got yet follows, as long as GOROCE_RS_LINGER_MS; the end
	 * of the process waits for that. An error says that something is lost already. */
	int (*close)(goroce_handle socket);
	int (*name)(goroce_handle socket, int peer, struct sockaddr_storage *addr);
	int (*set_option)(goroce_handle socket, int option, int64_t value);
	/* vector is the completion vector of a stream, -1 before it is connected. */
	int (*vector)(goroce_handle socket);
	/* path_mtu is 0 before there is a connection. */
	int (*path_mtu)(goroce_handle socket, uint32_t *bytes);
	/* iomap chooses an offset if it is negative. */
	int (*iomap)(goroce_handle socket, void *buf, size_t len, int64_t *offset);
	int (*iounmap)(goroce_handle socket, void *buf, size_t len);
	int (*iowrite)(goroce_handle socket, const void *buf, size_t len, int64_t offset, size_t *n);
	/*
	 * Datagrams. A socket of these knows none of listen, accept, connected, recv, send, shutdown and iomap; connect
	 * does not wait. recv_from cuts a datagram off that does not fit, and returns in *n how long it was. send_to
	 * without an address is to the peer that the socket is connected to.
	 */
	int (*recv_from)(goroce_handle socket, void *buf, size_t len, int peek, struct sockaddr_storage *from, size_t *n);
	int (*send_to)(goroce_handle socket, const void *buf, size_t len, const struct sockaddr *to);
	/*
	 * mirror has the descriptor of a socket say what poll does, for epoll, until close. The descriptor becomes an end of a pair of AF_UNIX
	 * sockets that do not block; mine is another descriptor of it, far one of the other end. Both stay the caller's, who closes them
	 * after close. Negative ones end it.
	 */
	int (*mirror)(goroce_handle socket, int mine, int far);
	/* member says in which set of epoll, by its number, a socket with a mirror is from now on. */
	int (*member)(goroce_handle socket, int set);
	/*
	 * epoll is epoll_wait for a set with sockets, and does not sleep: how many events there are, or an errno, negated. If there are none,
	 * a thread that waits sleeps until the program's set or its own can be read, and then calls again, with GOROCE_RS_SLEPT if its own can.
	 * One that does not calls with GOROCE_RS_LEAVE. EBUSY: another thread waits in this way, and the kernel's epoll_wait does.
	 */
	int (*epoll)(int set, struct epoll_event *events, int most, goroce_handle thread, int how);
	/* behind: what close has left to follow. */
	const struct goroce_rs_behind *behind;
};

/* What follows sockets that were closed, to be read at any time. */
struct goroce_rs_behind {
	uint32_t sockets; /* 0: their peers have all */
	uint32_t beat;	  /* counts while they are looked after */
};

typedef const struct goroce_rs *goroce_rs_table_fn(void);
const struct goroce_rs *goroce_rs_table(void);

#endif
