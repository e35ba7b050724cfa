/* A program on UDP sockets, which knows nothing of RDMA. Its argument says whether they are to be rsockets. */
#include "../programs/check.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/time.h>

static bool is_rsocket(int fd)
{
	int other = dup(fd);
	if (other >= 0)
		OK(close(other));
	return other < 0 && errno == ENOTSUP;
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	return fd;
}

static void exchange(bool rsocket)
{
	struct sockaddr_in at = addr("127.0.0.1", 0), from;
	socklen_t len = sizeof at;
	char b[100], c[100];
	int one = 1, s = udp(), fd = udp(), stream = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(is_rsocket(s) == rsocket && is_rsocket(fd) == rsocket && is_rsocket(stream));
	OK(bind(s, SA(at), sizeof at));
	OK(getsockname(s, SA(at), &len));
	OK(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)); /* late */
	for (int i = 0; i < 5; i++) {
		CHECK(sendto(fd, "hello", 5, 0, SA(at), sizeof at) == 5);
		struct pollfd p = {.fd = s, .events = POLLIN};
		CHECK(poll(&p, 1, -1) == 1);
		len = sizeof from;
		CHECK(recvfrom(s, b, sizeof b, 0, SA(from), &len) == 5 && !memcmp(b, "hello", 5));
		struct iovec v[2] = {{"one", 3}, {"three", 5}}, w[2] = {{b, sizeof b}, {c, sizeof c}};
		struct mmsghdr m[2] = {{{.msg_name = &from, .msg_namelen = len, .msg_iov = &v[0], .msg_iovlen = 1}},
				       {{.msg_name = &from, .msg_namelen = len, .msg_iov = &v[1], .msg_iovlen = 1}}};
		CHECK(sendmmsg(s, m, 2, 0) == 2);
		struct mmsghdr got[2] = {{{.msg_iov = &w[0], .msg_iovlen = 1}}, {{.msg_iov = &w[1], .msg_iovlen = 1}}};
		CHECK(recvmmsg(fd, got, 2, 0, NULL) == 2 && got[0].msg_len + got[1].msg_len == 8);
	}
	struct timeval t = {.tv_usec = 1000}, have;
	OK(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
	len = sizeof have;
	OK(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &have, &len));
	CHECK(have.tv_sec == 0 && have.tv_usec >= 1000);
	FAILS(recv(s, b, sizeof b, 0), EAGAIN);
	OK(close(s));
	OK(close(fd));
	OK(close(stream));
}

/* What rsockets cannot is done by the kernel, under the same number. */
static void kernel(void)
{
	struct sockaddr_in at = addr("127.0.0.9", 0), many = addr("224.0.0.99", 7);
	socklen_t len = sizeof at;
	char b[10];
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int s = udp(), fd = udp(), group = udp(), other = udp(), s6 = socket(AF_INET6, SOCK_DGRAM, 0), one = 1;
	CHECK(is_rsocket(s6));
	OK(setsockopt(s6, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
	if (bind(s6, (struct sockaddr *)&six, sizeof six)) /* where no device is */
		CHECK(errno == EADDRNOTAVAIL); /* nor any IPv6 */
	CHECK(!is_rsocket(s6));
	OK(close(s6));
	OK(setsockopt(s, IPPROTO_IP, IP_TTL, &(int){3}, sizeof(int)));
	CHECK(!is_rsocket(s));
	OK(bind(s, SA(at), sizeof at));
	OK(getsockname(s, SA(at), &len));
	OK(setsockopt(group, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	OK(setsockopt(group, IPPROTO_IP, IP_MULTICAST_LOOP, &one, sizeof one));
	CHECK(!is_rsocket(group));
	len = sizeof one;
	OK(getsockopt(group, SOL_SOCKET, SO_REUSEADDR, &one, &len));
	CHECK(one == 1);
	CHECK(is_rsocket(other));
	sendto(other, "x", 1, 0, SA(many), sizeof many); /* which may fail where there are no routes */
	CHECK(!is_rsocket(other));
	/* Another socket of the kernel. */
	OK(setsockopt(fd, IPPROTO_IP, IP_TTL, &(int){3}, sizeof(int)));
	CHECK(!is_rsocket(fd));
	OK(connect(fd, SA(at), sizeof at));
	CHECK(send(fd, "plain", 5, 0) == 5 && recv(s, b, sizeof b, 0) == 5 && !memcmp(b, "plain", 5));
	OK(close(s));
	OK(close(fd));
	OK(close(group));
	OK(close(other));
}

/* mixed has an rsocket and a socket of the kernel speak UDP. */
static void mixed(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0), there = at, from;
	socklen_t len = sizeof at;
	char b[100];
	int fd = udp(), k = udp();
	OK(setsockopt(k, IPPROTO_IP, IP_TTL, &(int){3}, sizeof(int)));
	CHECK(is_rsocket(fd) && !is_rsocket(k));
	OK(bind(fd, SA(at), sizeof at));
	OK(bind(k, SA(there), sizeof there));
	OK(getsockname(fd, SA(at), &len));
	OK(getsockname(k, SA(there), &len));
	/* A server of rdma, whose client is not. */
	CHECK(sendto(k, "asked", 5, 0, SA(at), len) == 5);
	CHECK(recvfrom(fd, b, sizeof b, 0, SA(from), &len) == 5 && !memcmp(b, "asked", 5) && from.sin_port == there.sin_port);
	CHECK(sendto(fd, "answered", 8, 0, SA(from), len) == 8);
	CHECK(recv(k, b, sizeof b, 0) == 8 && !memcmp(b, "answered", 8));
	OK(close(fd));
	/* A client of rdma, whose server is not. The server answers what is for another protocol, too. */
	fd = udp();
	CHECK(is_rsocket(fd));
	OK(connect(fd, SA(there), sizeof there));
	CHECK(send(fd, "asked", 5, 0) == 5);
	CHECK(recvfrom(k, b, sizeof b, 0, SA(from), &len) == 16 + 5);
	CHECK(sendto(k, "what?", 5, 0, SA(from), len) == 5);
	CHECK(recv(k, b, sizeof b, 0) == 5 && !memcmp(b, "asked", 5));
	CHECK(sendto(k, "answered", 8, 0, SA(from), len) == 8);
	CHECK(recv(fd, b, sizeof b, 0) == 8 && !memcmp(b, "answered", 8));
	OK(close(fd));
	/* One that says nothing hears of a client that tries again. */
	fd = udp();
	ssize_t n;
	do {
		CHECK(sendto(fd, "asked", 5, 0, SA(there), sizeof there) == 5);
		n = recv(k, b, sizeof b, 0);
	} while (n == 16 + 5);
	CHECK(n == 5 && !memcmp(b, "asked", 5));
	OK(close(fd));
	OK(close(k));
}

int main(int argc, char **argv)
{
	bool rsocket = !strcmp(argv[1], "rdma");
	exchange(rsocket);
	if (rsocket) {
		kernel();
		mixed();
	}
	return 0;
}
