// Datagrams.
#include "rs.h"

#include <fcntl.h>
#include <limits.h>

// A datagram is no longer; the Go half knows the limit.
#define LONGEST 2048

// total returns the length of a vector, or -1 with errno.
static ssize_t total(const struct iovec *iov, int count)
{
	size_t n = 0;
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len && !iov[i].iov_base)
			return cm_result(EFAULT);
		if (iov[i].iov_len > SSIZE_MAX - n)
			return cm_result(EINVAL);
		n += iov[i].iov_len;
	}
	return (ssize_t)n;
}

ssize_t rs_send_datagram(struct rs *s, const struct iovec *iov, int count, int flags, const struct sockaddr *to, socklen_t tolen)
{
	char all[LONGEST];
	const void *data = all;
	if (to) {
		int e = rs_check_addr(to, tolen);
		if (e)
			return cm_result(e);
	}
	if (flags & MSG_OOB)
		return cm_result(EOPNOTSUPP);
	ssize_t n = total(iov, count);
	if (n < 0)
		return -1;
	if (n > LONGEST)
		return cm_result(EMSGSIZE);
	if (count == 1) {
		data = iov->iov_base;
	} else {
		char *at = all;
		for (int i = 0; i < count; i++)
			at = (char *)memcpy(at, iov[i].iov_base, iov[i].iov_len) + iov[i].iov_len;
	}
	bool wait = !rs_nonblocking(s) && !(flags & MSG_DONTWAIT);
	int e;
	while ((e = RS(send_to, atomic_load(&s->handle), data, (size_t)n, to)) == EAGAIN && wait)
		if (rs_await_io(s, false))
			return -1;
	return e ? cm_result(e) : n;
}

ssize_t rs_recv_datagram(struct rs *s, const struct iovec *iov, int count, int flags, struct sockaddr *from, socklen_t *fromlen, int *msg_flags)
{
	char all[LONGEST];
	if (flags & MSG_OOB)
		return cm_result(EOPNOTSUPP);
	ssize_t room = total(iov, count);
	if (room < 0)
		return -1;
	void *data = count == 1 ? iov->iov_base : all;
	size_t fits = count == 1 ? iov->iov_len : (size_t)room < sizeof all ? (size_t)room : sizeof all;
	bool wait = !rs_nonblocking(s) && !(flags & MSG_DONTWAIT);
	struct sockaddr_storage a;
	size_t whole;
	int e;
	while ((e = RS(recv_from, atomic_load(&s->handle), data, fits, flags & MSG_PEEK, &a, &whole)) == EAGAIN && wait)
		if (rs_await_io(s, true))
			return -1;
	if (e)
		return cm_result(e);
	size_t n = whole < fits ? whole : fits;
	if (count != 1) {
		const char *at = all;
		size_t left = n;
		for (int i = 0; i < count && left; i++) {
			size_t k = iov[i].iov_len < left ? iov[i].iov_len : left;
			memcpy(iov[i].iov_base, at, k);
			at += k;
			left -= k;
		}
	}
	rs_in_family(s, &a);
	if (from && fromlen)
		rs_give_addr(&a, from, fromlen);
	if (msg_flags)
		*msg_flags = whole > n ? MSG_TRUNC : 0;
	return (ssize_t)(flags & MSG_TRUNC ? whole : n);
}
