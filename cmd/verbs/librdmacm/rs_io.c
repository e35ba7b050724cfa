// Sending and receiving.
#include "rs.h"

#include <fcntl.h>
#include <limits.h>

// advance moves a copy of an iovec by n bytes.
static void advance(struct iovec **iov, int *count, size_t n)
{
	while (*count && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		++*iov;
		--*count;
	}
	if (*count) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

// transfer is what sending and receiving have in common.
struct transfer {
	struct rs *s;
	struct iovec *iov; /* is changed */
	int count;
	int flags;
	bool receive;
};

static int step(const struct transfer *t, size_t *n)
{
	goroce_handle h = atomic_load(&t->s->handle);
	if (t->receive)
		return RS_QUEUED(rs_door(t->s), recv, h, t->iov, t->count, t->flags & MSG_PEEK, n);
	return RS_QUEUED(rs_door(t->s), send, h, t->iov, t->count, n);
}

int rs_await_io(struct rs *s, bool receive)
{
	int ms = receive ? s->rcv_ms : s->snd_ms;
	int r = rs_await(s, receive ? POLLIN : POLLOUT, ms ? ms : -1);
	if (r && errno == ETIMEDOUT)
		errno = EAGAIN;
	return r;
}

// run moves bytes: what there is when receiving, all when sending, and what is possible where the program does not
// want to wait.
static ssize_t run(struct transfer *t)
{
	bool wait = !rs_nonblocking(t->s) && !(t->flags & MSG_DONTWAIT);
	bool all = t->receive ? t->flags & MSG_WAITALL && !(t->flags & MSG_PEEK) : true;
	size_t done = 0;
	advance(&t->iov, &t->count, 0);
	while (t->count) {
		size_t n = 0;
		int e = wait && t->receive ? rs_await_recv(t->s, t->iov, t->count, t->flags & MSG_PEEK, &n) : step(t, &n);
		if (e == EAGAIN && wait && !t->receive) {
			if (!rs_await_io(t->s, t->receive))
				continue;
			e = errno;
		}
		if (e) {
			if (done)
				return (ssize_t)done;
			errno = e;
			return -1;
		}
		done += n;
		if (!n || !all)
			break;
		advance(&t->iov, &t->count, n);
	}
	return (ssize_t)done;
}

// vector_of checks a vector, and returns the socket it is for; NULL with errno.
static struct rs *vector_of(int socket, const struct iovec *iov, int count)
{
	struct rs *s = rs_of(socket);
	if (s && (count < 0 || count > IOV_MAX))
		errno = EINVAL;
	else if (s && !iov && count)
		errno = EFAULT;
	else
		return s;
	return NULL;
}

// move checks the arguments and runs a transfer.
static ssize_t move(int socket, const struct iovec *iov, int count, int flags, bool receive)
{
	struct rs *s = vector_of(socket, iov, count);
	if (!s)
		return -1;
	if (s->type == SOCK_DGRAM)
		return receive ? rs_recv_datagram(s, iov, count, flags, NULL, NULL, NULL) : rs_send_datagram(s, iov, count, flags, NULL, 0);
	if (flags & MSG_OOB)
		return cm_result(EOPNOTSUPP);
	struct iovec few[8], *copy = few;
	if (count > 8 && !(copy = malloc((size_t)count * sizeof *copy)))
		return cm_result(ENOMEM);
	size_t total = 0;
	int e = 0;
	for (int i = 0; i < count; i++) {
		copy[i] = iov[i];
		if (iov[i].iov_len && !iov[i].iov_base)
			e = EFAULT;
		if (iov[i].iov_len > SSIZE_MAX - total)
			e = EINVAL;
		total += iov[i].iov_len;
	}
	struct transfer t = {.s = s, .iov = copy, .count = count, .flags = flags, .receive = receive};
	ssize_t n = e ? cm_result(e) : run(&t);
	if (copy != few) {
		e = errno;
		free(copy);
		errno = e;
	}
	return n;
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec v = {buf, len};
	return move(socket, &v, 1, flags, true);
}

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *s = rs_find(socket);
	if (s && s->type == SOCK_DGRAM) {
		struct iovec v = {buf, len};
		s = vector_of(socket, &v, 1);
		return s ? rs_recv_datagram(s, &v, 1, flags, addr, addrlen, NULL) : -1;
	}
	ssize_t n = rrecv(socket, buf, len, flags);
	if (n > 0 && addr && rgetpeername(socket, addr, addrlen) && addrlen)
		*addrlen = 0;
	return n;
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (!msg)
		return cm_result(EFAULT);
	if (msg->msg_control && msg->msg_controllen)
		return cm_result(ENOTSUP);
	int count = msg->msg_iovlen > INT_MAX ? -1 : (int)msg->msg_iovlen;
	struct rs *s = vector_of(socket, msg->msg_iov, count);
	if (!s)
		return -1;
	if (s->type == SOCK_DGRAM)
		return rs_recv_datagram(s, msg->msg_iov, count, flags, msg->msg_name, msg->msg_name ? &msg->msg_namelen : NULL, &msg->msg_flags);
	ssize_t n = move(socket, msg->msg_iov, count, flags, true);
	if (n >= 0) {
		msg->msg_flags = 0;
		if (msg->msg_name && rgetpeername(socket, msg->msg_name, &msg->msg_namelen))
			msg->msg_namelen = 0;
	}
	return n;
}

EXPORT ssize_t rread(int socket, void *buf, size_t count) { return rrecv(socket, buf, count, 0); }

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int count) { return move(socket, iov, count, 0, true); }

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec v = {(void *)buf, len};
	return move(socket, &v, 1, flags, false);
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rs *s = rs_find(socket);
	if (s && s->type == SOCK_DGRAM) {
		struct iovec v = {(void *)buf, len};
		s = vector_of(socket, &v, 1);
		return s ? rs_send_datagram(s, &v, 1, flags, addr, addrlen) : -1;
	}
	if (addr || addrlen)
		return cm_result(EISCONN);
	return rsend(socket, buf, len, flags);
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (!msg)
		return cm_result(EFAULT);
	if (msg->msg_control && msg->msg_controllen)
		return cm_result(ENOTSUP);
	int count = msg->msg_iovlen > INT_MAX ? -1 : (int)msg->msg_iovlen;
	struct rs *s = vector_of(socket, msg->msg_iov, count);
	if (!s)
		return -1;
	if (s->type == SOCK_DGRAM)
		return rs_send_datagram(s, msg->msg_iov, count, flags, msg->msg_name, msg->msg_namelen);
	return move(socket, msg->msg_iov, count, flags, false);
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count) { return rsend(socket, buf, count, 0); }

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int count) { return move(socket, iov, count, 0, false); }

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	// The peer writes: it makes no sense without PROT_WRITE.
	if (!buf || !len || !(prot & PROT_WRITE) || prot & ~(PROT_WRITE | PROT_NONE) || flags)
		return cm_result(EINVAL);
	int64_t off = offset;
	int e;
	while ((e = RS(iomap, atomic_load(&s->handle), buf, len, &off)) == EAGAIN)
		if (rs_await(s, POLLOUT, -1))
			return -1;
	if (e)
		return cm_result(e);
	return off;
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
	struct rs *s = rs_of(socket);
	return s ? cm_result(RS(iounmap, atomic_load(&s->handle), buf, len)) : -1;
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return (size_t)-1;
	if (!buf && count)
		return (size_t)cm_result(EFAULT);
	bool wait = !rs_nonblocking(s) && !(flags & MSG_DONTWAIT);
	size_t done = 0;
	while (done < count) {
		size_t n = 0;
		int e = RS(iowrite, atomic_load(&s->handle), (const char *)buf + done, count - done, offset + (off_t)done, &n);
		if (e == EAGAIN && wait) {
			if (!rs_await(s, POLLOUT, -1))
				continue;
			e = errno;
		}
		if (e)
			return done ? done : (size_t)cm_result(e);
		done += n;
	}
	return done;
}
