/* A program that waits with epoll for TCP sockets, which are rsockets, and for others. */
#include "../programs/check.h"
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	*at = addr("127.0.0.1", 0);
	OK(bind(fd, SA(*at), sizeof *at));
	OK(getsockname(fd, SA(*at), &len));
	OK(listen(fd, 128));
	FAILS(dup(fd), ENOTSUP); /* it is an rsocket */
	return fd;
}

static void add(int ep, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	OK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

static void change(int ep, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	OK(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
}

/* event waits for one of a descriptor; -1: none is there now. */
static int event(int ep, int fd)
{
	struct epoll_event e[4];
	int n = epoll_wait(ep, e, 4, fd < 0 ? 0 : -1);
	if (fd < 0)
		return n;
	CHECK(n == 1 && e[0].data.fd == fd);
	return (int)e[0].events;
}

static void pair(int ep, int *c, int *s)
{
	struct sockaddr_in at;
	int err, one = 1, l = listener(&at);
	socklen_t len = sizeof err;
	add(ep, l, EPOLLIN);
	CHECK(event(ep, -1) == 0);
	CHECK((*c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	add(ep, *c, EPOLLOUT | EPOLLET); /* before it connects, as nginx does */
	FAILS(connect(*c, SA(at), sizeof at), EINPROGRESS);
	struct epoll_event e[2];
	for (bool connected = false, accepted = false; !connected || !accepted;) {
		int n = epoll_wait(ep, e, 2, -1);
		for (int i = 0; i < n; i++) {
			if (e[i].data.fd == l) {
				CHECK(e[i].events == EPOLLIN);
				*s = accept4(l, NULL, NULL, SOCK_NONBLOCK);
				CHECK(*s >= 0);
				accepted = true;
			} else {
				CHECK(e[i].data.fd == *c && e[i].events == EPOLLOUT);
				connected = true;
			}
		}
	}
	OK(getsockopt(*c, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK(err == 0);
	OK(setsockopt(*c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
	OK(close(l));
	OK(epoll_ctl(ep, EPOLL_CTL_DEL, *c, NULL));
}

/* By level, beside a pipe; by one shot; and the end. */
static void levels(void)
{
	int c, s, pipes[2], ep = epoll_create1(EPOLL_CLOEXEC);
	char b[8];
	pair(ep, &c, &s);
	OK(pipe(pipes));
	add(ep, s, EPOLLIN | EPOLLRDHUP);
	add(ep, pipes[0], EPOLLIN);
	CHECK(event(ep, -1) == 0);
	CHECK(write(pipes[1], "x", 1) == 1);
	CHECK(event(ep, pipes[0]) == EPOLLIN);
	CHECK(read(pipes[0], b, 1) == 1);
	for (int i = 0; i < 200; i++) {
		CHECK(write(c, "abcd", 4) == 4);
		CHECK(event(ep, s) == EPOLLIN);
		CHECK(read(s, b, 2) == 2);
		CHECK(event(ep, s) == EPOLLIN); /* there is more */
		CHECK(read(s, b, 2) == 2);
		CHECK(event(ep, -1) == 0);
	}
	change(ep, s, EPOLLIN | EPOLLOUT | EPOLLONESHOT);
	CHECK(event(ep, s) == EPOLLOUT);
	CHECK(write(c, "abcd", 4) == 4);
	change(ep, s, EPOLLIN | EPOLLONESHOT);
	CHECK(event(ep, s) == EPOLLIN);
	CHECK(event(ep, -1) == 0); /* it was one shot */
	change(ep, s, EPOLLIN | EPOLLRDHUP);
	OK(close(c));
	CHECK(event(ep, s) == EPOLLIN);
	CHECK(read(s, b, sizeof b) == 4);
	for (int i = 0; i < 2; i++) { /* the connection may be gone, too */
		CHECK((event(ep, s) & ~EPOLLHUP) == (EPOLLIN | EPOLLRDHUP));
		CHECK(read(s, b, sizeof b) == 0);
	}
	OK(close(s));
	CHECK(event(ep, -1) == 0);
	OK(close(ep));
}

/* Edges: two threads send and receive all they can until a call is not done in full, and wait for an edge then. One that is lost is
   waited for for ever. */
#define TOTAL (8 << 20)
static void *sender(void *arg)
{
	static char b[50000];
	int fd = (int)(intptr_t)arg, ep = epoll_create1(0);
	unsigned int seed = 1;
	add(ep, fd, EPOLLOUT | EPOLLET);
	for (size_t sent = 0; sent < TOTAL;) {
		size_t want = (size_t)rand_r(&seed) % sizeof b + 1;
		if (want > TOTAL - sent)
			want = TOTAL - sent;
		ssize_t n = write(fd, b, want);
		CHECK(n > 0 || errno == EAGAIN);
		if (n > 0)
			sent += (size_t)n;
		if (n < (ssize_t)want)
			CHECK(event(ep, fd) & EPOLLOUT);
	}
	OK(close(ep));
	return NULL;
}

static void *receiver(void *arg)
{
	static char b[50000];
	int fd = (int)(intptr_t)arg, ep = epoll_create1(0);
	unsigned int seed = 2;
	add(ep, fd, EPOLLIN | EPOLLET);
	for (size_t got = 0; got < TOTAL;) {
		size_t want = (size_t)rand_r(&seed) % sizeof b + 1;
		ssize_t n = read(fd, b, want);
		CHECK(n > 0 || errno == EAGAIN);
		if (n > 0)
			got += (size_t)n;
		if (n < (ssize_t)want && got < TOTAL) /* a short one, too: what comes now is an edge */
			CHECK(event(ep, fd) & EPOLLIN);
	}
	OK(close(ep));
	return NULL;
}

static void edges(void)
{
	int c, s, ep = epoll_create1(0);
	pthread_t t[4];
	pair(ep, &c, &s);
	OK(close(ep));
	OK(pthread_create(&t[0], NULL, sender, (void *)(intptr_t)c));
	OK(pthread_create(&t[1], NULL, receiver, (void *)(intptr_t)s));
	OK(pthread_join(t[0], NULL));
	OK(pthread_join(t[1], NULL));
	OK(close(c));
	OK(close(s));
}

/* Small messages to and fro, by edges: each side waits for each. */
static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg, ep = epoll_create1(0);
	char b[16];
	add(ep, fd, EPOLLIN | EPOLLET | EPOLLRDHUP);
	for (;;) {
		ssize_t n = read(fd, b, sizeof b);
		if (!n)
			break;
		CHECK(n > 0 || errno == EAGAIN);
		if (n > 0)
			CHECK(write(fd, b, (size_t)n) == n);
		if (n < (ssize_t)sizeof b)
			event(ep, fd);
	}
	OK(close(ep));
	return NULL;
}

static void messages(void)
{
	int c, s, ep = epoll_create1(0);
	char b[16] = "ping";
	pthread_t t;
	pair(ep, &c, &s);
	OK(pthread_create(&t, NULL, echo, (void *)(intptr_t)s));
	add(ep, c, EPOLLIN | EPOLLET);
	for (int i = 0; i < 2000; i++) {
		size_t left = 4;
		CHECK(write(c, b, 4) == 4);
		while (left) {
			ssize_t n = read(c, b, sizeof b);
			CHECK(n > 0 || errno == EAGAIN);
			if (n > 0)
				left -= (size_t)n;
			if (left)
				CHECK(event(ep, c) & EPOLLIN);
		}
	}
	OK(shutdown(c, SHUT_WR));
	OK(pthread_join(t, NULL));
	OK(close(c));
	OK(close(s));
	OK(close(ep));
}

/* Nobody is there, and a socket that the kernel has in the end stays in its set. */
static void refused(void)
{
	struct sockaddr_in at, foreign = addr("127.0.0.99", 0);
	socklen_t len = sizeof at;
	int err, l = listener(&at), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), u = socket(AF_INET, SOCK_DGRAM, 0), ep = epoll_create1(0);
	OK(close(l));
	add(ep, c, EPOLLOUT);
	FAILS(connect(c, SA(at), sizeof at), EINPROGRESS);
	CHECK(event(ep, c) & EPOLLOUT);
	len = sizeof err;
	OK(getsockopt(c, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK(err == ECONNREFUSED);
	OK(close(c));
	add(ep, u, EPOLLIN);
	OK(setsockopt(u, IPPROTO_IP, IP_TTL, &(int){3}, sizeof(int))); /* which rsockets have not */
	OK(bind(u, SA(foreign), sizeof foreign));
	c = dup(u);
	CHECK(c >= 0);
	OK(close(c));
	len = sizeof foreign;
	OK(getsockname(u, SA(foreign), &len));
	CHECK(sendto(u, "x", 1, 0, SA(foreign), len) == 1);
	CHECK(event(ep, u) == EPOLLIN);
	OK(close(u));
	OK(close(ep));
}

/* Sockets for datagrams. */
static void datagrams(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	char b[8];
	int a = socket(AF_INET, SOCK_DGRAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0), ep = epoll_create1(0);
	add(ep, u, EPOLLIN | EPOLLET);
	OK(bind(u, SA(at), sizeof at));
	OK(getsockname(u, SA(at), &len));
	for (int i = 0; i < 20; i++) {
		CHECK(sendto(a, "hello", 5, 0, SA(at), sizeof at) == 5);
		CHECK(event(ep, u) & EPOLLIN);
		CHECK(recv(u, b, sizeof b, MSG_DONTWAIT) == 5);
		FAILS(recv(u, b, sizeof b, MSG_DONTWAIT), EAGAIN);
	}
	OK(close(a));
	OK(close(u));
	OK(close(ep));
}

int main(void)
{
	levels();
	messages();
	edges();
	refused();
	datagrams();
	return 0;
}
