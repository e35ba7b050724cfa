// Making rsockets, connecting and ending them.
#include "rs.h"
#include "../include/goroce_rs_private.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

EXPORT int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool stream = kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP);
	bool datagram = kind == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
	if ((domain != AF_INET && domain != AF_INET6) || (!stream && !datagram))
		return cm_result(ENOTSUP);
	if (cm_devices_open())
		return -1;
	goroce_handle h;
	struct rs *s;
	int e = RS(create, domain, kind, &h);
	if (e)
		return cm_result(e);
	int fd = rs_new(h, domain, type, &s);
	if (fd < 0) {
		e = errno;
		RS(close, h);
		return cm_result(e);
	}
	return fd;
}

int rs_check_addr(const struct sockaddr *addr, socklen_t len)
{
	if (!addr)
		return EFAULT;
	int want = len < sizeof addr->sa_family ? 0 : cm_addrlen(addr);
	if (!want)
		return len < sizeof addr->sa_family ? EINVAL : EAFNOSUPPORT;
	return (int)len < want ? EINVAL : 0;
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t len)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	int e = rs_check_addr(addr, len);
	if (!e)
		e = RS(bind, atomic_load(&s->handle), addr);
	if (!e)
		rs_note_bound(s);
	return cm_result(e);
}

// say_blocks is before a stream that blocks connects or listens: its thread will wait for it in calls, and others for theirs beside it.
static void say_blocks(struct rs *s)
{
	if (s->type == SOCK_STREAM && !rs_nonblocking(s))
		RS(set_option, atomic_load(&s->handle), GOROCE_RS_BLOCKS, 1);
}

EXPORT int rlisten(int socket, int backlog)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	say_blocks(s);
	int e = RS(listen, atomic_load(&s->handle), backlog, -1);
	if (!e) {
		s->backlog = backlog < 0 ? 0 : backlog;
		rs_note_bound(s);
	}
	return cm_result(e);
}

// An IPv4 address is a mapped one to a socket of IPv6, as for TCP.
void rs_in_family(const struct rs *s, struct sockaddr_storage *a)
{
	if (s->domain != AF_INET6 || a->ss_family != AF_INET)
		return;
	struct sockaddr_in in;
	memcpy(&in, a, sizeof in);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = in.sin_port};
	six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&six.sin6_addr.s6_addr[12], &in.sin_addr, 4);
	memcpy(a, &six, sizeof six);
}

// As the kernel does.
int rs_give_addr(const struct sockaddr_storage *from, struct sockaddr *to, socklen_t *len)
{
	if (!to || !len)
		return EFAULT;
	socklen_t n = (socklen_t)cm_addrlen((const struct sockaddr *)from);
	memcpy(to, from, *len < n ? *len : n);
	*len = n;
	return 0;
}

// name returns an address of a socket; one that has none yet has that of its family with zeros.
static int name(struct rs *s, int peer, struct sockaddr_storage *a)
{
	int e = RS(name, atomic_load(&s->handle), peer, a);
	if (!e && !a->ss_family)
		a->ss_family = (sa_family_t)s->domain;
	rs_in_family(s, a);
	return e;
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *len)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	goroce_handle h;
	int e;
	while ((e = RS(accept, atomic_load(&s->handle), &h)) == EAGAIN) {
		if (rs_nonblocking(s))
			return cm_result(EWOULDBLOCK);
		if (rs_await(s, POLLIN, -1))
			return -1;
	}
	if (e)
		return cm_result(e);
	struct rs *n;
	// What accept(2) gives a socket: none of the flags of the listener.
	int fd = rs_new(h, s->domain, SOCK_STREAM, &n);
	if (fd < 0) {
		e = errno;
		RS(close, h);
		return cm_result(e);
	}
	n->used = true;
	n->sndbuf = s->sndbuf;
	n->rcvbuf = s->rcvbuf;
	n->sq_size = s->sq_size;
	n->rq_size = s->rq_size;
	n->inline_bytes = s->inline_bytes;
	n->iomaps = s->iomaps;
	n->nodelay = s->nodelay;
	memcpy(n->advice, s->advice, sizeof n->advice);
	if (addr) {
		struct sockaddr_storage a;
		e = name(n, 1, &a);
		if (!e)
			rs_give_addr(&a, addr, len);
	}
	return fd;
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t len)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	goroce_handle h = atomic_load(&s->handle);
	int e = rs_check_addr(addr, len);
	if (!e)
		s->used = true;
	if (!e && s->type == SOCK_DGRAM)
		return cm_result(RS(connect, h, addr));
	if (!e)
		e = RS(connected, h);
	if (e == 0)
		return cm_result(EISCONN);
	if (e != ENOTCONN) // EINPROGRESS of an earlier call, or how that has failed
		return cm_result(e == EINPROGRESS ? EALREADY : e);
	say_blocks(s);
	e = RS(connect, h, addr);
	if (e)
		return cm_result(e);
	e = RS(connected, h);
	if (rs_nonblocking(s)) // as TCP: also if the peer was so quick that there is nothing left to wait for
		return cm_result(e ? e : EINPROGRESS);
	for (; e == EINPROGRESS; e = RS(connected, h))
		if (rs_await(s, POLLOUT, -1))
			return -1;
	return cm_result(e);
}

// settle tries until the peer has been told and has what was written, or for a while. A signal does not end it: what would be lost is
// the program's data.
static int settle(struct rs *s, int how, int most_ms)
{
	int64_t end = rs_now_us() + most_ms * INT64_C(1000);
	int e;
	while ((e = RS(shutdown, atomic_load(&s->handle), how)) == EAGAIN) {
		int64_t left = end - rs_now_us();
		if (left <= 0)
			return ETIMEDOUT;
		int ms = left < GOROCE_RS_ASK_MS * 1000 ? (int)(left / 1000) + 1 : GOROCE_RS_ASK_MS;
		if (rs_await(s, GOROCE_RS_DRAINED, ms) && errno != EINTR && errno != ETIMEDOUT)
			return errno;
	}
	return e;
}

EXPORT int rshutdown(int socket, int how)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	return cm_result(settle(s, how, GOROCE_RS_LINGER_MS));
}

EXPORT int goroce_rs_is(int fd) { return rs_find(fd) != NULL; }

// What was written before a close is there in this time, unless the peer does not read, or is gone: then it follows behind the close. The
// program may end without a word to anybody (_exit) after it.
#define CLOSE_MS 1000

// end ends a socket; its descriptor stays.
static int end(struct rs *s)
{
	bool forked = cm_of_parent(s->born) || goroce_foreign(s->born);
	if (!forked && s->mirror.far)
		RS(mirror, atomic_load(&s->handle), -1, -1); // epoll is not to hear of an end that the program makes
	if (!forked && s->type == SOCK_STREAM && !rs_nonblocking(s))
		settle(s, SHUT_RDWR, CLOSE_MS);
	goroce_handle h = atomic_exchange(&s->handle, 0);
	if (!h)
		return EBADF; // another thread was faster
	return forked ? 0 : RS(close, h);
}

EXPORT void goroce_rs_release(int fd)
{
	struct rs *s = rs_find(fd);
	if (!s || end(s) == EBADF)
		return;
	rs_mirror_close(rs_mirror_take(s));
}

EXPORT int rclose(int socket)
{
	struct rs *s = rs_find(socket);
	if (!s && rs_is_set(socket)) // of repoll_create
		return close(socket);
	if (!s)
		return cm_result(EBADF);
	int e = end(s);
	if (e != EBADF) {
		struct rs_mirror m = rs_mirror_take(s); // the number may be another socket's soon
		close(socket);
		rs_mirror_close(m);
	}
	return cm_result(e);
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *len)
{
	struct rs *s = rs_of(socket);
	struct sockaddr_storage a;
	if (!s)
		return -1;
	int e = name(s, 1, &a);
	return cm_result(e ? e : rs_give_addr(&a, addr, len));
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *len)
{
	struct rs *s = rs_of(socket);
	struct sockaddr_storage a;
	if (!s)
		return -1;
	int e = name(s, 0, &a);
	return cm_result(e ? e : rs_give_addr(&a, addr, len));
}

EXPORT int rfcntl(int socket, int cmd, ...)
{
	struct rs *s = rs_find(socket);
	if (!s)
		return cm_result(EBADF);
	va_list args;
	va_start(args, cmd);
	int arg = cmd == F_SETFL || cmd == F_SETFD ? va_arg(args, int) : 0;
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		return O_RDWR | atomic_load(&s->flags);
	case F_SETFL:
		atomic_store(&s->flags, arg & (O_NONBLOCK | O_APPEND | O_ASYNC));
		return 0;
	case F_GETFD:
		return s->fd_flags;
	case F_SETFD:
		s->fd_flags = arg;
		return (int)syscall(SYS_fcntl, socket, F_SETFD, arg); // fcntl may be librspreload's
	}
	return cm_result(ENOTSUP);
}
