/*
 * librspreload.so: programs that know nothing of RDMA use rsockets in place of TCP and UDP sockets, when it is preloaded.
 * It is rdma-core's library of this name in short, for librdmacm.so.1 of the same build.
 *
 * A socket is an rsocket from the start. It becomes one of the kernel, under the same number, if the program binds
 * or connects it to where no device of ours leads, or wants of UDP what rsockets do not have, such as multicast. A descriptor
 * that is no rsocket is libc's, as are all other kinds of sockets, and those that rdma-core's configuration leaves out
 * (config.c).
 *
 * Not here: sockets that are duplicated, or used by the child of a fork.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../include/goroce_rs_private.h"
#include "config.h"
#include "epoll.h"

#define EXPORT __attribute__((visibility("default")))

/* LIBC is libc's function of a name. */
#define LIBC(name)                                                              \
	({                                                                      \
		static _Atomic(__typeof__(&name)) found_;                       \
		__typeof__(&name) f_ = atomic_load_explicit(&found_, memory_order_relaxed); \
		if (!f_) {                                                      \
			f_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);        \
			atomic_store_explicit(&found_, f_, memory_order_relaxed); \
		}                                                               \
		f_;                                                             \
	})

static bool ours(int fd) { return goroce_rs_is(fd); }

/* What the libraries beneath open for themselves are no rsockets. */
static __thread bool inside;

EXPORT int socket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool stream = kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP);
	bool datagram = kind == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
	if (!inside && (domain == AF_INET || domain == AF_INET6) && (stream || datagram) && rspreload_wanted(domain, kind)) {
		int e = errno;
		inside = true;
		int fd = rsocket(domain, type, protocol);
		inside = false;
		if (fd >= 0) {
			if (datagram)
				goroce_rs_plain(fd);
			return fd;
		}
		errno = e; /* no device: TCP or UDP then */
	}
	return LIBC(socket)(domain, type, protocol);
}

static bool is_datagram(int fd)
{
	int v = 0;
	socklen_t len = sizeof v;
	return !rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len) && v == SOCK_DGRAM;
}

/* is_fresh reports whether a socket for datagrams has no port yet, so that nobody knows it. */
static bool is_fresh(int fd)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof a;
	return is_datagram(fd) && !rgetsockname(fd, (struct sockaddr *)&a, &len) && !a.sin6_port;
}

/* copy_option gives a socket of the kernel what the program has set. */
static void copy_option(int from, int to, int level, int name)
{
	struct timeval v = {0}; /* room for an int, too */
	socklen_t len = sizeof v;
	if (!rgetsockopt(from, level, name, &v, &len) && (v.tv_sec || v.tv_usec))
		LIBC(setsockopt)(to, level, name, &v, len);
}

/* to_kernel makes an rsocket that is not connected a TCP or UDP socket of the same number, bound as it was. */
static int to_kernel(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof a;
	if (rgetsockname(fd, (struct sockaddr *)&a, &len))
		return -1;
	int flags = rfcntl(fd, F_GETFL), fd_flags = rfcntl(fd, F_GETFD);
	int kind = is_datagram(fd) ? SOCK_DGRAM : SOCK_STREAM;
	int other = LIBC(socket)(a.ss_family, kind | SOCK_CLOEXEC | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0), 0);
	if (other < 0)
		return -1;
	copy_option(fd, other, SOL_SOCKET, SO_REUSEADDR);
	copy_option(fd, other, SOL_SOCKET, SO_REUSEPORT);
	copy_option(fd, other, IPPROTO_IPV6, IPV6_V6ONLY);
	copy_option(fd, other, SOL_SOCKET, SO_KEEPALIVE);
	copy_option(fd, other, SOL_SOCKET, SO_RCVTIMEO);
	copy_option(fd, other, SOL_SOCKET, SO_SNDTIMEO);
	static const int tcp[] = {TCP_NODELAY, TCP_CORK, TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_FASTOPEN, TCP_USER_TIMEOUT};
	for (size_t i = 0; kind == SOCK_STREAM && i < sizeof tcp / sizeof *tcp; i++)
		copy_option(fd, other, IPPROTO_TCP, tcp[i]);
	const struct sockaddr_in *in = (struct sockaddr_in *)&a;
	bool bound = in->sin_port != 0; /* at the same place for IPv6 */
	struct member *sets = rspreload_epoll_leave(fd);
	goroce_rs_release(fd);
	int e = 0;
	if (bound && LIBC(bind)(other, (struct sockaddr *)&a, len))
		e = errno;
	if (LIBC(dup3)(other, fd, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		e = errno;
	LIBC(close)(other);
	rspreload_epoll_join(fd, sets, !e);
	errno = e;
	return e ? -1 : 0;
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (!ours(fd))
		return LIBC(bind)(fd, addr, len);
	int r = rbind(fd, addr, len);
	if (r && (errno == EADDRNOTAVAIL || errno == ENODEV) && !to_kernel(fd))
		return LIBC(bind)(fd, addr, len);
	return r;
}

/* no_way reports whether an error says that no device of ours leads to an address. */
static bool no_way(int e)
{
	return e == ENETUNREACH || e == EADDRNOTAVAIL || e == ENODEV || e == EAFNOSUPPORT || e == EOPNOTSUPP;
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (!ours(fd))
		return LIBC(connect)(fd, addr, len);
	int r = rconnect(fd, addr, len);
	/* Where nobody answers by RDMA somebody may do so by TCP. (A datagram socket asks nobody in connect.) */
	if (r && (no_way(errno) || errno == EHOSTUNREACH || errno == ECONNREFUSED || errno == ETIMEDOUT)) {
		int e = errno;
		if (!to_kernel(fd))
			return LIBC(connect)(fd, addr, len);
		errno = e;
	}
	return r;
}

EXPORT int listen(int fd, int backlog) { return ours(fd) ? rlisten(fd, backlog) : LIBC(listen)(fd, backlog); }

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (!ours(fd))
		return LIBC(accept4)(fd, addr, len, flags);
	int n = raccept(fd, addr, len);
	if (n >= 0 && flags & SOCK_NONBLOCK)
		rfcntl(n, F_SETFL, O_NONBLOCK);
	if (n >= 0 && flags & SOCK_CLOEXEC)
		rfcntl(n, F_SETFD, FD_CLOEXEC);
	return n;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return ours(fd) ? raccept(fd, addr, len) : LIBC(accept)(fd, addr, len);
}

EXPORT int shutdown(int fd, int how) { return ours(fd) ? rshutdown(fd, how) : LIBC(shutdown)(fd, how); }
EXPORT int close(int fd)
{
	if (!ours(fd))
		return LIBC(close)(fd);
	rspreload_epoll_forget(fd);
	/* TCP's says nothing of what the peer did not get, and libevent ends a program whose close fails. */
	return rclose(fd) && errno == EBADF ? -1 : 0;
}

EXPORT void _exit(int status) { goroce_rs_exit(status); }
EXPORT void _Exit(int status) { goroce_rs_exit(status); }

EXPORT int getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	return ours(fd) ? rgetpeername(fd, a, len) : LIBC(getpeername)(fd, a, len);
}

EXPORT int getsockname(int fd, struct sockaddr *a, socklen_t *len)
{
	return ours(fd) ? rgetsockname(fd, a, len) : LIBC(getsockname)(fd, a, len);
}

/* is_multicast reports whether an option is about groups, which rsockets have not. */
static bool is_multicast(int level, int name)
{
	if (level == IPPROTO_IP)
		return name == IP_ADD_MEMBERSHIP || name == IP_ADD_SOURCE_MEMBERSHIP || name == IP_MULTICAST_IF ||
		       name == IP_MULTICAST_TTL || name == IP_MULTICAST_LOOP || name == MCAST_JOIN_GROUP;
	return level == IPPROTO_IPV6 && (name == IPV6_JOIN_GROUP || name == IPV6_MULTICAST_IF || name == IPV6_MULTICAST_HOPS ||
					 name == IPV6_MULTICAST_LOOP || name == MCAST_JOIN_GROUP);
}

EXPORT int setsockopt(int fd, int level, int name, const void *v, socklen_t len)
{
	if (!ours(fd))
		return LIBC(setsockopt)(fd, level, name, v, len);
	int r = rsetsockopt(fd, level, name, v, len);
	if (!r || errno != ENOTSUP || !is_datagram(fd) || (!is_fresh(fd) && !is_multicast(level, name)))
		return r;
	return to_kernel(fd) ? -1 : LIBC(setsockopt)(fd, level, name, v, len);
}

EXPORT int getsockopt(int fd, int level, int name, void *v, socklen_t *len)
{
	return ours(fd) ? rgetsockopt(fd, level, name, v, len) : LIBC(getsockopt)(fd, level, name, v, len);
}

/* Data. */

EXPORT ssize_t recv(int fd, void *b, size_t n, int flags)
{
	return ours(fd) ? rrecv(fd, b, n, flags) : LIBC(recv)(fd, b, n, flags);
}

EXPORT ssize_t recvfrom(int fd, void *b, size_t n, int flags, struct sockaddr *a, socklen_t *len)
{
	return ours(fd) ? rrecvfrom(fd, b, n, flags, a, len) : LIBC(recvfrom)(fd, b, n, flags, a, len);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (!ours(fd))
		return LIBC(recvmsg)(fd, m, flags);
	if (m)
		m->msg_controllen = 0; /* there is none */
	return rrecvmsg(fd, m, flags);
}

EXPORT ssize_t send(int fd, const void *b, size_t n, int flags)
{
	return ours(fd) ? rsend(fd, b, n, flags) : LIBC(send)(fd, b, n, flags);
}

/* leave makes a socket that nobody knows one of the kernel, when its first datagram has no way. */
static bool leave(int fd, bool fresh, ssize_t r) { return fresh && r < 0 && no_way(errno) && !to_kernel(fd); }

EXPORT ssize_t sendto(int fd, const void *b, size_t n, int flags, const struct sockaddr *a, socklen_t len)
{
	if (!ours(fd))
		return LIBC(sendto)(fd, b, n, flags, a, len);
	if (a && !is_datagram(fd))
		return rsend(fd, b, n, flags); /* a stream that is connected has its address, says the kernel */
	bool fresh = a && is_fresh(fd);
	ssize_t r = rsendto(fd, b, n, flags, a, len);
	return leave(fd, fresh, r) ? LIBC(sendto)(fd, b, n, flags, a, len) : r;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (!ours(fd))
		return LIBC(sendmsg)(fd, m, flags);
	bool fresh = m && m->msg_name && is_fresh(fd);
	ssize_t r = rsendmsg(fd, m, flags);
	return leave(fd, fresh, r) ? LIBC(sendmsg)(fd, m, flags) : r;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *all, unsigned int n, int flags)
{
	if (!ours(fd))
		return LIBC(sendmmsg)(fd, all, n, flags);
	for (unsigned int i = 0; i < n; i++) {
		ssize_t r = sendmsg(fd, &all[i].msg_hdr, flags);
		if (r < 0)
			return i ? (int)i : -1;
		all[i].msg_len = (unsigned int)r;
	}
	return (int)n;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *all, unsigned int n, int flags, struct timespec *t)
{
	if (!ours(fd))
		return LIBC(recvmmsg)(fd, all, n, flags, t);
	if (t) {
		errno = ENOTSUP;
		return -1;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (i && flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		ssize_t r = recvmsg(fd, &all[i].msg_hdr, flags & ~MSG_WAITFORONE);
		if (r < 0)
			return i ? (int)i : -1;
		all[i].msg_len = (unsigned int)r;
	}
	return (int)n;
}

EXPORT ssize_t read(int fd, void *b, size_t n) { return ours(fd) ? rread(fd, b, n) : LIBC(read)(fd, b, n); }
EXPORT ssize_t write(int fd, const void *b, size_t n) { return ours(fd) ? rwrite(fd, b, n) : LIBC(write)(fd, b, n); }

EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
	return ours(fd) ? rreadv(fd, v, n) : LIBC(readv)(fd, v, n);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	return ours(fd) ? rwritev(fd, v, n) : LIBC(writev)(fd, v, n);
}

/* What _FORTIFY_SOURCE makes of the calls. The size of the buffer is known to be too small or not. */
static void enough(size_t n, size_t room)
{
	if (n > room)
		abort();
}

EXPORT ssize_t __read_chk(int fd, void *b, size_t n, size_t room)
{
	enough(n, room);
	return read(fd, b, n);
}

EXPORT ssize_t __recv_chk(int fd, void *b, size_t n, size_t room, int flags)
{
	enough(n, room);
	return recv(fd, b, n, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *b, size_t n, size_t room, int flags, struct sockaddr *a, socklen_t *len)
{
	enough(n, room);
	return recvfrom(fd, b, n, flags, a, len);
}

/* send_file copies a part of a file. */
static ssize_t send_file(int fd, int from, off_t *offset, size_t count)
{
	char b[65536];
	size_t done = 0;
	while (done < count) {
		size_t want = count - done < sizeof b ? count - done : sizeof b;
		ssize_t n = offset ? pread(from, b, want, *offset) : LIBC(read)(from, b, want);
		if (n <= 0)
			return done ? (ssize_t)done : n;
		ssize_t k = rsend(fd, b, (size_t)n, 0);
		if (k < 0)
			k = 0;
		if (offset)
			*offset += k;
		else if (k < n && lseek(from, k - n, SEEK_CUR) < 0)
			return -1; /* what was read of a pipe is lost, which cannot be helped */
		done += (size_t)k;
		if (k < n)
			return done ? (ssize_t)done : -1;
	}
	return (ssize_t)done;
}

EXPORT ssize_t sendfile(int fd, int from, off_t *offset, size_t count)
{
	return ours(fd) ? send_file(fd, from, offset, count) : LIBC(sendfile)(fd, from, offset, count);
}

EXPORT ssize_t sendfile64(int fd, int from, off64_t *offset, size_t count)
{
	_Static_assert(sizeof(off_t) == sizeof(off64_t), "offsets");
	return ours(fd) ? send_file(fd, from, (off_t *)offset, count) : LIBC(sendfile64)(fd, from, offset, count);
}

/* Waiting. */

static bool any_ours(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; fds && i < n; i++)
		if (ours(fds[i].fd))
			return true;
	return false;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms) { return any_ours(fds, n) ? rpoll(fds, n, ms) : LIBC(poll)(fds, n, ms); }

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room)
{
	enough(n * sizeof *fds, room);
	return poll(fds, n, ms);
}

static int milliseconds(const struct timespec *t)
{
	if (!t)
		return -1;
	if (t->tv_sec > INT32_MAX / 1000 - 1)
		return INT32_MAX;
	return (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

/* is_time reports whether the kernel would take a time to wait. */
static bool is_time(const struct timespec *t) { return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000); }

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	if (!any_ours(fds, n))
		return LIBC(ppoll)(fds, n, t, mask);
	if (!is_time(t)) {
		errno = EINVAL;
		return -1;
	}
	sigset_t old;
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	int r = rpoll(fds, n, milliseconds(t)), e = errno;
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = e;
	return r;
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t room)
{
	enough(n * sizeof *fds, room);
	return ppoll(fds, n, t, mask);
}

static bool set_has_ours(int n, const fd_set *a, const fd_set *b, const fd_set *c)
{
	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++)
		if (((a && FD_ISSET(fd, a)) || (b && FD_ISSET(fd, b)) || (c && FD_ISSET(fd, c))) && ours(fd))
			return true;
	return false;
}

EXPORT int select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *t)
{
	return set_has_ours(n, rd, wr, ex) ? rselect(n, rd, wr, ex, t) : LIBC(select)(n, rd, wr, ex, t);
}

EXPORT int pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *t, const sigset_t *mask)
{
	if (!set_has_ours(n, rd, wr, ex))
		return LIBC(pselect)(n, rd, wr, ex, t, mask);
	if (!is_time(t)) {
		errno = EINVAL;
		return -1;
	}
	struct timeval v = {0};
	if (t)
		v = (struct timeval){.tv_sec = t->tv_sec, .tv_usec = (t->tv_nsec + 999) / 1000};
	sigset_t old;
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	int r = rselect(n, rd, wr, ex, t ? &v : NULL), e = errno;
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = e;
	return r;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return ours(fd) ? rspreload_epoll_ctl(epfd, op, fd, event) : LIBC(epoll_ctl)(epfd, op, fd, event);
}

/* wait_for_ours is epoll_pwait2 for a set that has rsockets; false: libc's is to be called. */
static bool wait_for_ours(int set, struct epoll_event *events, int most, const struct timespec *t, const sigset_t *mask, int *n)
{
	int e = errno;
	if (!goroce_rs_has(set) || !is_time(t))
		return false;
	*n = goroce_rs_epoll(set, events, most, t, mask);
	if (*n < 0 && errno == EBUSY)
		return errno = e, false;
	return true;
}

int epoll_pwait2(int, struct epoll_event *, int, const struct timespec *, const sigset_t *); /* of glibc 2.35 */
EXPORT int epoll_pwait2(int set, struct epoll_event *events, int most, const struct timespec *t, const sigset_t *mask)
{
	int n;
	return wait_for_ours(set, events, most, t, mask, &n) ? n : LIBC(epoll_pwait2)(set, events, most, t, mask);
}

EXPORT int epoll_pwait(int set, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
	int n;
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	return wait_for_ours(set, events, most, ms < 0 ? NULL : &t, mask, &n) ? n : LIBC(epoll_pwait)(set, events, most, ms, mask);
}

EXPORT int epoll_wait(int set, struct epoll_event *events, int most, int ms) { return epoll_pwait(set, events, most, ms, NULL); }

/*
 * System calls by number. libuv closes in this way. It also has a ring of io_uring to change its epoll set by, and does without one
 * that it does not get: the kernel knows nothing of rsockets. A program of which no socket is one of ours has its rings.
 */
EXPORT long syscall(long number, ...)
{
	long a[6];
	va_list args;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_close && ours((int)a[0]))
		return close((int)a[0]);
	if (number == SYS_io_uring_setup && (rspreload_wanted(AF_INET, SOCK_STREAM) || rspreload_wanted(AF_INET6, SOCK_STREAM))) {
		errno = ENOSYS;
		return -1;
	}
	return LIBC(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Looked for at the start, since dlsym may wait for a thread that the child of a fork does not have. */
__attribute__((constructor)) static void find_syscall(void) { (void)LIBC(syscall); }

/* Descriptors. */

static int fcntl_rsocket(int fd, int cmd, void *arg)
{
	switch (cmd) {
	case F_GETFL:
	case F_GETFD:
		return rfcntl(fd, cmd);
	case F_SETFL:
	case F_SETFD:
		return rfcntl(fd, cmd, (int)(intptr_t)arg);
	}
	errno = ENOTSUP;
	return -1;
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	void *arg = va_arg(args, void *);
	va_end(args);
	return ours(fd) ? fcntl_rsocket(fd, cmd, arg) : LIBC(fcntl)(fd, cmd, arg);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	va_start(args, cmd);
	void *arg = va_arg(args, void *);
	va_end(args);
	return ours(fd) ? fcntl_rsocket(fd, cmd, arg) : LIBC(fcntl64)(fd, cmd, arg);
}

static int unread(int fd)
{
	enum { MOST = 65536 }; /* as much as is counted */
	void *b = malloc(MOST); /* not one for each thread: programs make threads with less stack, which holds that, too */
	ssize_t n = b ? rrecv(fd, b, MOST, MSG_PEEK | MSG_DONTWAIT) : 0;
	free(b);
	return n < 0 ? 0 : (int)n;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (!ours(fd))
		return LIBC(ioctl)(fd, request, arg);
	switch (request) {
	case FIONBIO:
		return rfcntl(fd, F_SETFL, *(int *)arg ? O_NONBLOCK : 0);
	case FIONREAD:
		*(int *)arg = unread(fd);
		return 0;
	}
	errno = ENOTTY;
	return -1;
}

static int refuse_dup(void)
{
	errno = ENOTSUP;
	return -1;
}

EXPORT int dup(int fd) { return ours(fd) ? refuse_dup() : LIBC(dup)(fd); }

/* replace ends the rsocket whose number is to be another descriptor's. */
static void replace(int fd)
{
	if (!ours(fd))
		return;
	rspreload_epoll_forget(fd);
	goroce_rs_release(fd);
}

EXPORT int dup2(int from, int to)
{
	if (ours(from))
		return from == to ? to : refuse_dup();
	replace(to);
	return LIBC(dup2)(from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
	if (ours(from))
		return refuse_dup();
	replace(to);
	return LIBC(dup3)(from, to, flags);
}

EXPORT int fstat(int fd, struct stat *s)
{
	int r = LIBC(fstat)(fd, s);
	if (!r && ours(fd))
		s->st_mode = S_IFSOCK | 0777;
	return r;
}

EXPORT int fstat64(int fd, struct stat64 *s)
{
	int r = LIBC(fstat64)(fd, s);
	if (!r && ours(fd))
		s->st_mode = S_IFSOCK | 0777;
	return r;
}
