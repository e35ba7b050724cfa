/* Rsockets: what a program on sockets does, and what it gets wrong. */
#include "check.h"
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

static int listener(struct sockaddr_in *at, int iomaps)
{
	socklen_t len = sizeof *at;
	int one = 1, fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	*at = addr("127.0.0.1", 0);
	OK(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	OK(rbind(fd, SA(*at), sizeof *at));
	OK(rgetsockname(fd, SA(*at), &len));
	CHECK(at->sin_port != 0 && len == sizeof *at);
	OK(rlisten(fd, 8));
	OK(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &iomaps, sizeof iomaps));
	return fd;
}

static int wait_for(int fd, int events)
{
	struct pollfd p = {.fd = fd, .events = events};
	CHECK(rpoll(&p, 1, -1) == 1);
	return p.revents;
}

/* pair connects without waiting in connect or accept. */
static void pair(int *c, int *s, int iomaps)
{
	struct sockaddr_in at, peer, from = addr("127.0.0.2", 0);
	socklen_t len = sizeof peer;
	int err, l = listener(&at, iomaps);
	OK(rfcntl(l, F_SETFL, O_NONBLOCK));
	CHECK(rfcntl(l, F_GETFL) & O_NONBLOCK);
	FAILS(raccept(l, NULL, NULL), EAGAIN);
	*c = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
	CHECK(*c >= 0);
	OK(rsetsockopt(*c, SOL_RDMA, RDMA_IOMAPSIZE, &iomaps, sizeof iomaps));
	OK(rbind(*c, SA(from), sizeof from));
	FAILS(rconnect(*c, SA(at), sizeof at), EINPROGRESS);
	CHECK(wait_for(l, POLLIN) == POLLIN);
	*s = raccept(l, SA(peer), &len);
	CHECK(*s >= 0 && peer.sin_addr.s_addr == from.sin_addr.s_addr && peer.sin_port != 0);
	CHECK(!(rfcntl(*s, F_GETFL) & O_NONBLOCK));
	CHECK(wait_for(*c, POLLOUT) == POLLOUT);
	len = sizeof err;
	OK(rgetsockopt(*c, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK(err == 0);
	FAILS(rconnect(*c, SA(at), sizeof at), EISCONN);
	len = sizeof peer;
	OK(rgetpeername(*c, SA(peer), &len));
	CHECK(peer.sin_port == at.sin_port && peer.sin_addr.s_addr == at.sin_addr.s_addr);
	OK(rclose(l));
}

static void bad_input(void)
{
	struct sockaddr_in a = addr("127.0.0.1", 7), foreign = addr("192.0.2.1", 0);
	socklen_t len = 1;
	char b[4];
	int v = 1, pipes[2], fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	OK(pipe(pipes));
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	FAILS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	FAILS(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), ENOTSUP);
	FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	for (int i = 0; i < 2; i++) {
		int no = i ? pipes[0] : -1; /* a descriptor of something else, and none */
		FAILS(rbind(no, SA(a), sizeof a), EBADF);
		FAILS(rlisten(no, 1), EBADF);
		FAILS(raccept(no, NULL, NULL), EBADF);
		FAILS(rconnect(no, SA(a), sizeof a), EBADF);
		FAILS(rrecv(no, b, 1, 0), EBADF);
		FAILS(rsend(no, b, 1, 0), EBADF);
		FAILS(rclose(no), EBADF);
		FAILS(rshutdown(no, SHUT_WR), EBADF);
		FAILS(rfcntl(no, F_GETFL), EBADF);
		FAILS(rsetsockopt(no, SOL_SOCKET, SO_REUSEADDR, &v, sizeof v), EBADF);
		FAILS(rgetsockname(no, SA(a), &len), EBADF);
	}
	FAILS(rrecv(fd, b, 1, 0), ENOTCONN);
	FAILS(rsend(fd, b, 1, 0), ENOTCONN);
	FAILS(rshutdown(fd, SHUT_RDWR), ENOTCONN);
	FAILS(rgetpeername(fd, SA(a), &len), ENOTCONN);
	FAILS(rbind(fd, NULL, sizeof a), EFAULT);
	FAILS(rbind(fd, SA(a), 3), EINVAL);
	FAILS(rbind(fd, SA(foreign), sizeof foreign), EADDRNOTAVAIL);
	FAILS(raccept(fd, NULL, NULL), EINVAL);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, 4), EFAULT);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
	FAILS(rsetsockopt(fd, SOL_SOCKET, 9999, &v, sizeof v), ENOTSUP);
	FAILS(rgetsockopt(fd, 77, 1, &v, &len), ENOTSUP);
	FAILS(rgetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, &len), EINVAL);
	FAILS(rfcntl(fd, F_DUPFD, 0), ENOTSUP);
	FAILS(rconnect(fd, SA(a), sizeof a), ECONNREFUSED);
	a = addr("127.0.0.1", 0);
	OK(rbind(fd, SA(a), sizeof a));
	FAILS(rbind(fd, SA(a), sizeof a), EINVAL);
	OK(rclose(fd));
	FAILS(rclose(fd), EBADF);
	struct pollfd p = {.fd = pipes[1], .events = POLLOUT};
	CHECK(rpoll(&p, 1, 0) == 1 && p.revents == POLLOUT); /* no rsocket: as poll */
	close(pipes[0]);
	close(pipes[1]);
}

static void options(void)
{
	int v, fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof v;
	v = 100000;
	OK(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &v, sizeof v));
	OK(rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &v, &len));
	CHECK(v == 200000 && len == sizeof v);
	v = 50;
	OK(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &v, sizeof v));
	OK(rgetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &v, &len));
	CHECK(v == 50);
	v = 1;
	OK(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof v));
	OK(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof v));
	v = 0;
	FAILS(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &v, sizeof v), EINVAL);
	/* nginx ends a connection, and BIND's dig itself, if one of these fails */
	static const int advice[] = {TCP_CORK, TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_FASTOPEN, TCP_USER_TIMEOUT};
	for (int i = 0; i < (int)(sizeof advice / sizeof *advice); i++) {
		v = i + 1;
		OK(rsetsockopt(fd, IPPROTO_TCP, advice[i], &v, sizeof v));
		v = -1;
		FAILS(rsetsockopt(fd, IPPROTO_TCP, advice[i], &v, sizeof v), EINVAL);
	}
	for (int i = 0; i < (int)(sizeof advice / sizeof *advice); i++) {
		OK(rgetsockopt(fd, IPPROTO_TCP, advice[i], &v, &len));
		CHECK(v == i + 1);
	}
	int next = rsocket(AF_INET, SOCK_STREAM, 0), number = fd;
	OK(rclose(fd));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd == number);
	OK(rclose(next));
	OK(rgetsockopt(fd, IPPROTO_TCP, TCP_CORK, &v, &len));
	CHECK(v == 0); /* of the number's last socket nothing is left */
	v = 1;
	OK(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof v));
	OK(rgetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &len));
	CHECK(v == 1);
	OK(rclose(fd));
}

enum { total = 3000000 };

static char byte_at(int i) { return (char)(i * 7 + i / 1000); }

static void *send_all(void *fd)
{
	static char b[total];
	for (int i = 0; i < total; i++)
		b[i] = byte_at(i);
	CHECK(rsend((int)(intptr_t)fd, b, total, 0) == total); /* a call that waits sends all */
	return NULL;
}

static void data(void)
{
	int c, s, pipes[2];
	pair(&c, &s, 0);
	OK(pipe(pipes));
	pthread_t t;
	OK(pthread_create(&t, NULL, send_all, (void *)(intptr_t)s));
	/* The client does not wait in calls, and watches a pipe besides. */
	static char b[70000];
	struct pollfd p[2] = {{.fd = pipes[0], .events = POLLIN}, {.fd = c, .events = POLLIN}};
	int got = 0, told = 0;
	while (got < total) {
		CHECK(rpoll(p, 2, -1) >= 1);
		if (p[0].revents) {
			CHECK(read(pipes[0], b, 1) == 1 && b[0] == '!');
			told = 1;
		}
		if (!p[1].revents)
			continue;
		char first;
		CHECK(rrecv(c, &first, 1, MSG_PEEK) == 1);
		ssize_t n = rrecv(c, b, sizeof b, 0);
		CHECK(n > 0 && b[0] == first);
		for (ssize_t i = 0; i < n; i++)
			CHECK(b[i] == byte_at(got + i));
		if (got < total / 2 && got + n >= total / 2)
			CHECK(write(pipes[1], "!", 1) == 1);
		got += n;
	}
	OK(pthread_join(t, NULL));
	if (!told) {
		CHECK(rpoll(p, 2, -1) == 1 && p[0].revents == POLLIN);
		CHECK(read(pipes[0], b, 1) == 1);
	}
	FAILS(rrecv(c, b, 1, 0), EAGAIN);
	CHECK(rpoll(p, 2, 1) == 0);

	struct iovec v[3] = {{"one ", 4}, {NULL, 0}, {"two", 4}}, in[2] = {{b, 3}, {b + 3, 5}};
	CHECK(rwritev(c, v, 3) == 8);
	CHECK(rrecv(s, b, 8, MSG_WAITALL) == 8 && !memcmp(b, "one two", 8));
	CHECK(rsend(c, "at once", 8, 0) == 8);
	CHECK(rreadv(s, in, 2) == 8 && !memcmp(b, "at once", 8));
	fd_set rd, wr;
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_SET(pipes[0], &rd);
	FD_SET(c, &rd);
	FD_SET(c, &wr);
	CHECK(rselect((c > pipes[0] ? c : pipes[0]) + 1, &rd, &wr, NULL, NULL) == 1);
	CHECK(!FD_ISSET(pipes[0], &rd) && !FD_ISSET(c, &rd) && FD_ISSET(c, &wr));
	FAILS(rselect(c + 1, NULL, &wr, NULL, &(struct timeval){.tv_sec = -1}), EINVAL); /* and not without end */
	CHECK(rselect(c + 1, NULL, &wr, NULL, &(struct timeval){.tv_sec = INT64_MAX, .tv_usec = 999999}) == 1);
	CHECK(rselect(c + 1, NULL, &wr, NULL, &(struct timeval){.tv_usec = 1}) == 1);

	FAILS(rsend(c, NULL, 5, 0), EFAULT);
	FAILS(rrecv(c, b, 1, MSG_OOB), EOPNOTSUPP);
	FAILS(rsendto(c, b, 1, 0, (struct sockaddr *)b, 16), EISCONN);
	CHECK(rsend(c, b, 0, 0) == 0);

	/* The end of one direction, and then of the other. */
	CHECK(rsend(c, "last", 4, 0) == 4);
	OK(rshutdown(c, SHUT_WR));
	FAILS(rsend(c, b, 1, 0), EPIPE);
	CHECK(rrecv(s, b, 4, MSG_WAITALL) == 4 && !memcmp(b, "last", 4));
	CHECK(rrecv(s, b, 1, 0) == 0);
	CHECK(rsend(s, "bye", 3, 0) == 3);
	OK(rclose(s));
	CHECK(wait_for(c, POLLIN) & POLLIN);
	CHECK(rrecv(c, b, 10, 0) == 3);
	wait_for(c, POLLIN);
	CHECK(rrecv(c, b, 10, 0) == 0);
	OK(rclose(c));
	close(pipes[0]);
	close(pipes[1]);
}

static void mappings(void)
{
	int c, s;
	char mem[64] = "", b[8];
	pair(&c, &s, 2);
	FAILS(riomap(s, mem, 0, PROT_WRITE, 0, 0), EINVAL);
	FAILS(riomap(s, mem, 8, PROT_READ, 0, 0), EINVAL);
	CHECK(riomap(s, mem, sizeof mem, PROT_WRITE, 0, 100) == 100);
	CHECK(rsend(s, "m", 1, 0) == 1);
	wait_for(c, POLLIN);
	CHECK(rrecv(c, b, 1, 0) == 1);
	CHECK(riowrite(c, "direct", 7, 110, 0) == 7);
	FAILS(riowrite(c, "x", 1, 1, 0), EINVAL);
	CHECK(rsend(c, "d", 1, 0) == 1);
	CHECK(rrecv(s, b, 1, 0) == 1 && !strcmp(mem + 10, "direct"));
	FAILS(riounmap(s, mem, 1), EINVAL);
	OK(riounmap(s, mem, sizeof mem));
	OK(rclose(c));
	OK(rclose(s));
}

/* What a peer does not read waits here as far as SO_SNDBUF says, also when that is said of a connection. */
static void small_buffer(void)
{
	static char b[1 << 20];
	int c, s, v = 4096, n = 0, k;
	socklen_t len = sizeof v;
	pair(&c, &s, 0);
	OK(rsetsockopt(c, SOL_SOCKET, SO_SNDBUF, &v, sizeof v));
	OK(rgetsockopt(c, SOL_SOCKET, SO_SNDBUF, &v, &len));
	CHECK(v == 8192);
	while ((k = rsend(c, b, sizeof b, MSG_DONTWAIT)) > 0)
		n += k;
	CHECK(errno == EAGAIN && n < 1 << 19); /* it took all, up to 4 MiB */
	CHECK(rrecv(s, b, n, MSG_WAITALL) == n);
	CHECK(wait_for(c, POLLOUT) & POLLOUT);
	OK(rclose(c));
	OK(rclose(s));
}

static void *receive(void *fd)
{
	char b;
	ssize_t n = rrecv((int)(intptr_t)fd, &b, 1, 0);
	return (void *)(intptr_t)(n < 0 && errno == EBADF ? 0 : n == 0 ? 0 : 1);
}

/* Somebody who waits notices that the socket is closed. */
static void closed_meanwhile(void)
{
	int c, s;
	void *r;
	pthread_t t;
	pair(&c, &s, 0);
	OK(pthread_create(&t, NULL, receive, (void *)(intptr_t)s));
	OK(rclose(s));
	OK(pthread_join(t, &r));
	CHECK(r == NULL);
	OK(rclose(c));
}

int main(void)
{
	bad_input();
	options();
	data();
	mappings();
	small_buffer();
	closed_meanwhile();
	return 0;
}
