/* Rsockets for datagrams: what a program on UDP sockets does, and what it gets wrong. */
#include "check.h"
#include <rdma/rsocket.h>
#include <stdbool.h>

static int bound(const char *host, struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0);
	*at = addr(host, 0);
	OK(rbind(fd, SA(*at), sizeof *at));
	OK(rgetsockname(fd, SA(*at), &len));
	CHECK(at->sin_port != 0 && len == sizeof *at);
	return fd;
}

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == b->sin_family && a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

static int wait_for(int fd, int events)
{
	struct pollfd p = {.fd = fd, .events = events};
	CHECK(rpoll(&p, 1, -1) == 1);
	return p.revents;
}

static void exchange(void)
{
	struct sockaddr_in a_at, b_at, from;
	int v, a = bound("127.0.0.1", &a_at), b = bound("127.0.0.2", &b_at);
	char buf[4000] = {0};
	socklen_t len = sizeof v;
	OK(rgetsockopt(a, SOL_SOCKET, SO_TYPE, &v, &len));
	CHECK(v == SOCK_DGRAM);
	FAILS(rrecv(a, buf, 1, MSG_DONTWAIT), EAGAIN);
	/* By UDP at first, and by the queue pair later. */
	for (int i = 0; i < 10; i++) {
		CHECK(rsendto(a, "hello", 5, 0, SA(b_at), sizeof b_at) == 5);
		CHECK(wait_for(b, POLLIN) == POLLIN);
		len = sizeof from;
		CHECK(rrecvfrom(b, buf, sizeof buf, MSG_PEEK, SA(from), &len) == 5);
		CHECK(same(&from, &a_at) && len == sizeof from);
		CHECK(rrecvfrom(b, buf, sizeof buf, 0, SA(from), &len) == 5 && !memcmp(buf, "hello", 5));
		/* In pieces there, cut off here. */
		struct iovec out[3] = {{"a", 1}, {"bcd", 3}, {"", 0}}, in[2] = {{buf, 1}, {buf + 10, 1}};
		struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = out, .msg_iovlen = 3};
		CHECK(rsendmsg(b, &m, 0) == 4);
		m = (struct msghdr){.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = in, .msg_iovlen = 2};
		CHECK(rrecvmsg(a, &m, 0) == 2 && m.msg_flags == MSG_TRUNC && buf[0] == 'a' && buf[10] == 'b');
		CHECK(same(&from, &b_at));
		/* One of no bytes is one, too. */
		CHECK(rsendto(a, NULL, 0, 0, SA(b_at), sizeof b_at) == 0);
		CHECK(rrecv(b, buf, sizeof buf, 0) == 0);
	}
	CHECK(rsendto(a, buf, 2032, 0, SA(b_at), sizeof b_at) == 2032);
	CHECK(rrecv(b, buf, 10, MSG_TRUNC) == 2032);
	FAILS(rsendto(a, buf, 2033, 0, SA(b_at), sizeof b_at), EMSGSIZE);
	FAILS(rsendto(a, buf, sizeof buf, 0, SA(b_at), sizeof b_at), EMSGSIZE);
	FAILS(rsend(a, buf, 1, 0), EDESTADDRREQ);
	FAILS(rgetpeername(a, SA(from), &len), ENOTCONN);

	OK(rconnect(a, SA(b_at), sizeof b_at));
	len = sizeof from;
	OK(rgetpeername(a, SA(from), &len));
	CHECK(same(&from, &b_at));
	CHECK(rsend(a, "one", 3, 0) == 3 && rwrite(a, "two", 3) == 3);
	CHECK(rrecv(b, buf, 10, 0) == 3 && rread(b, buf, 10) == 3);
	/* A socket that was not bound has an address when it has sent. */
	int c = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP);
	CHECK(c >= 0);
	FAILS(rrecv(c, buf, 1, 0), EINVAL);
	CHECK(wait_for(c, POLLOUT) == POLLOUT);
	CHECK(rsendto(c, "c", 1, 0, SA(b_at), sizeof b_at) == 1);
	len = sizeof from;
	CHECK(rrecvfrom(b, buf, 10, 0, SA(from), &len) == 1 && from.sin_port != 0);
	CHECK(rsendto(b, "back", 4, 0, SA(from), sizeof from) == 4);
	CHECK(wait_for(c, POLLIN) == POLLIN);
	CHECK(rrecv(c, buf, 10, 0) == 4);
	/* The peer of a connected socket only. */
	len = sizeof from;
	CHECK(rsendto(c, "foreign", 7, 0, SA(a_at), sizeof a_at) == 7);
	CHECK(rsendto(b, "mine", 4, 0, SA(a_at), sizeof a_at) == 4);
	CHECK(rrecv(a, buf, 10, 0) == 4 && !memcmp(buf, "mine", 4));
	OK(rclose(a));
	OK(rclose(b));
	OK(rclose(c));
	FAILS(rsend(a, "x", 1, 0), EBADF);
}

static void bad_input(void)
{
	struct sockaddr_in at, foreign = addr("192.0.2.1", 0), many = addr("224.0.0.9", 7);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_addr = {{{0x20, 1, 0xd, 0xb8}}}};
	int v = 1, fd = rsocket(AF_INET, SOCK_DGRAM, 0), other = rsocket(AF_INET, SOCK_DGRAM, 0);
	char b[4];
	socklen_t len = sizeof at;
	FAILS(rbind(fd, SA(foreign), sizeof foreign), EADDRNOTAVAIL);
	FAILS(rbind(fd, NULL, 16), EFAULT);
	FAILS(rbind(fd, SA(foreign), 3), EINVAL);
	OK(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){1 << 16}, sizeof v));
	OK(rgetsockname(fd, SA(at), &len));
	CHECK(at.sin_family == AF_INET && at.sin_port == 0);
	at = addr("127.0.0.1", 0);
	OK(rbind(fd, SA(at), sizeof at));
	FAILS(rbind(fd, SA(at), sizeof at), EINVAL);
	OK(rgetsockname(fd, SA(at), &len));
	FAILS(rbind(other, SA(at), sizeof at), EADDRINUSE);
	FAILS(rlisten(fd, 1), EOPNOTSUPP);
	FAILS(raccept(fd, NULL, NULL), EOPNOTSUPP);
	FAILS(rshutdown(fd, SHUT_WR), EOPNOTSUPP);
	CHECK(riomap(fd, b, 4, PROT_WRITE, 0, -1) == -1 && errno == EOPNOTSUPP);
	FAILS(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &v, sizeof v), EINVAL);
	FAILS(rsendto(fd, b, 1, 0, SA(foreign), sizeof foreign), EINVAL); /* port 0 */
	FAILS(rsendto(fd, b, 1, 0, SA(many), sizeof many), EOPNOTSUPP);
	FAILS(rsendto(fd, b, 1, 0, (struct sockaddr *)&six, sizeof six), EAFNOSUPPORT);
	FAILS(rsendto(fd, b, 1, 0, SA(at), 3), EINVAL);
	FAILS(rsendto(fd, NULL, 1, 0, SA(at), sizeof at), EFAULT);
	FAILS(rsendto(fd, b, 1, MSG_OOB, SA(at), sizeof at), EOPNOTSUPP);
	FAILS(rrecvfrom(fd, NULL, 1, MSG_DONTWAIT, NULL, NULL), EFAULT);
	FAILS(rconnect(fd, SA(at), 1), EINVAL);
	OK(rclose(fd));
	OK(rclose(other));
}

/* A call that waits ends when the socket is closed. */
static void *close_it(void *fd)
{
	OK(rclose((int)(intptr_t)fd));
	return NULL;
}

static void closing(void)
{
	struct sockaddr_in at;
	char b[1];
	int fd = bound("127.0.0.1", &at);
	pthread_t t;
	OK(pthread_create(&t, NULL, close_it, (void *)(intptr_t)fd));
	FAILS(rrecv(fd, b, 1, 0), EBADF);
	OK(pthread_join(t, NULL));
}

int main(void)
{
	exchange();
	bad_input();
	closing();
	return 0;
}
