/* Addresses of IPv6 on devices that have IPv4 only, as servers bind them that want both. */
#include "check.h"
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>

static struct sockaddr_in6 six(const struct in6_addr *a, int port)
{
	return (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *a};
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, bool only)
{
	struct rdma_cm_id *id;
	int one = 1;
	OK(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	if (only)
		OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof one));
	return id;
}

/* Two listeners at one port, one of each family, as tgtd's: nothing comes to that of IPv6. */
static void both(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in any = addr("0.0.0.0", 0);
	struct sockaddr_in6 any6, at;
	struct rdma_cm_id *a = new_id(ch, false), *b = new_id(ch, true), *c = new_id(ch, true), *d = new_id(ch, true);
	OK(rdma_bind_addr(a, SA(any)));
	any6 = six(&in6addr_any, ntohs(rdma_get_src_port(a)));
	OK(rdma_bind_addr(b, SA(any6)));
	FAILS(rdma_bind_addr(b, SA(any6)), EINVAL);
	FAILS(rdma_bind_addr(c, SA(any6)), EADDRINUSE);
	CHECK(rdma_get_src_port(b) == any6.sin6_port && rdma_get_local_addr(b)->sa_family == AF_INET6 && !b->verbs);
	OK(rdma_listen(a, 4));
	OK(rdma_listen(b, 4));
	any6.sin6_port = 0;
	OK(rdma_bind_addr(d, SA(any6)));
	CHECK(rdma_get_src_port(d) != 0);
	OK(rdma_destroy_id(b));
	any6.sin6_port = rdma_get_src_port(a);
	OK(rdma_bind_addr(c, SA(any6))); /* the port is free again */
	at = six(&in6addr_any, 7);
	at.sin6_addr.s6_addr[0] = 0x20;
	OK(rdma_resolve_addr(c, NULL, SA(at), 1000));
	struct rdma_cm_event *e;
	OK(rdma_get_cm_event(ch, &e));
	CHECK(e->event == RDMA_CM_EVENT_ADDR_ERROR && e->id == c);
	OK(rdma_ack_cm_event(e));
	OK(rdma_destroy_id(a));
	OK(rdma_destroy_id(c));
	OK(rdma_destroy_id(d));
	rdma_destroy_event_channel(ch);
}

static bool mapped(const struct sockaddr_in6 *a) { return a->sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->sin6_addr); }

/* What is bound to an address of IPv6 speaks IPv4. */
static void datagrams(const struct in6_addr *host)
{
	struct sockaddr_in6 at = six(host, 0), from;
	struct sockaddr_in to;
	socklen_t len = sizeof at;
	char b[8];
	int fd = rsocket(AF_INET6, SOCK_DGRAM, 0), peer = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0 && peer >= 0);
	OK(rbind(fd, SA(at), sizeof at));
	OK(rgetsockname(fd, SA(at), &len));
	to = addr("127.0.0.1", ntohs(at.sin6_port));
	CHECK(rsendto(peer, "hello", 5, 0, SA(to), sizeof to) == 5);
	len = sizeof from;
	CHECK(rrecvfrom(fd, b, sizeof b, 0, SA(from), &len) == 5);
	CHECK(mapped(&from) && len == sizeof from);
	CHECK(rsendto(fd, "back", 4, 0, SA(from), len) == 4);
	CHECK(rrecv(peer, b, sizeof b, 0) == 4);
	OK(rclose(fd));
	OK(rclose(peer));
}

static int listener(int family, const void *a, socklen_t len, bool only)
{
	int one = 1, fd = rsocket(family, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	if (only)
		OK(rsetsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
	if (rbind(fd, a, len)) {
		int e = errno;
		OK(rclose(fd));
		errno = e;
		return -1;
	}
	OK(rlisten(fd, 4));
	return fd;
}

static void streams(void)
{
	struct sockaddr_in6 at = six(&in6addr_any, 0), from;
	struct sockaddr_in to;
	socklen_t len = sizeof at;
	int l = listener(AF_INET6, &at, sizeof at, false), c = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rgetsockname(l, SA(at), &len));
	to = addr("127.0.0.1", ntohs(at.sin6_port));
	OK(rconnect(c, SA(to), sizeof to));
	len = sizeof from;
	int s = raccept(l, SA(from), &len);
	CHECK(s >= 0 && mapped(&from));
	OK(rclose(l));
	OK(rclose(c));
	OK(rclose(s));
	/* A loopback address of IPv6 stands for the device, unless it has it already, or the program does not want IPv4. */
	at = six(&in6addr_loopback, 0);
	CHECK((l = listener(AF_INET6, &at, sizeof at, false)) >= 0);
	len = sizeof at;
	OK(rgetsockname(l, SA(at), &len));
	CHECK(mapped(&at));
	struct sockaddr_in6 same = six(&in6addr_loopback, ntohs(at.sin6_port)), fresh = six(&in6addr_loopback, 0);
	FAILS(listener(AF_INET6, &same, sizeof same, false), EADDRNOTAVAIL);
	FAILS(listener(AF_INET6, &fresh, sizeof fresh, true), ENODEV);
	OK(rclose(l));
}

/* Two sockets for datagrams at one address, if both want that. */
static void shared(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	int v = 1, fds[3];
	for (int i = 0; i < 3; i++) {
		CHECK((fds[i] = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0);
		if (i == 2) {
			FAILS(rbind(fds[i], SA(at), sizeof at), EADDRINUSE);
			break;
		}
		OK(rsetsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &v, sizeof v));
		v = 0;
		OK(rgetsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &v, &len));
		CHECK(v == 1);
		OK(rgetsockopt(fds[i], SOL_SOCKET, SO_REUSEADDR, &(int){0}, &len));
		OK(rbind(fds[i], SA(at), sizeof at));
		len = sizeof at;
		OK(rgetsockname(fds[i], SA(at), &len));
		len = sizeof v;
	}
	for (int i = 0; i < 3; i++)
		OK(rclose(fds[i]));
}

int main(void)
{
	both();
	datagrams(&in6addr_any);
	datagrams(&in6addr_loopback);
	streams();
	shared();
	return 0;
}
