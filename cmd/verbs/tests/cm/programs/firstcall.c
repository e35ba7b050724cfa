/* Each call gives a thread whose first call it is what a thread needs that calls Go: a handler of a signal has 256 KiB on its
   stack, as programs/signals.c has it for verbs. */
#include "check.h"
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <signal.h>

/* roomy is for a thread that has made a call: Go's own stack has 32 KiB. */
static void roomy(const char *call)
{
	stack_t s;
	OK(sigaltstack(NULL, &s));
	if (s.ss_flags & SS_DISABLE || s.ss_size < 256 * 1024) {
		fprintf(stderr, "a thread that begins with %s has %zu bytes for handlers of signals\n", call, s.ss_size);
		exit(1);
	}
}

/* Several threads make the first call of the process, and wait for one that loads the rest. */
#define MANY 8
static pthread_barrier_t start;

static void *open_first(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&start);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	roomy("rsocket, one of many");
	OK(rclose(fd));
	return NULL;
}

static int l, c, s, d; /* it listens, two that are connected, datagrams */
static struct sockaddr_in at;
static char b[64];
static struct iovec v = {b, 1};
static struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
static struct pollfd p;
static int one = 1;
static socklen_t len = sizeof one, alen = sizeof at;

/* Their results are of no concern here, but none may wait. */
#define CALL(name, x)                       \
	static void *first_##name(void *arg) \
	{                                   \
		long r_ = (long)(x);        \
		(void)r_, (void)arg;        \
		roomy(#name);               \
		return NULL;                \
	}
CALL(rsocket, rclose(rsocket(AF_INET, SOCK_STREAM, 0)))
CALL(rbind, rbind(l, SA(at), sizeof at))
CALL(rlisten, rlisten(l, 1))
CALL(raccept, raccept(l, NULL, NULL))
CALL(rconnect, rconnect(c, SA(at), sizeof at))
CALL(rsend, rsend(c, "x", 1, 0))
CALL(rsendto, rsendto(d, "x", 1, 0, SA(at), sizeof at))
CALL(rsendmsg, rsendmsg(c, &m, 0))
CALL(rwrite, rwrite(c, "x", 1))
CALL(rwritev, rwritev(c, &v, 1))
CALL(rrecv, rrecv(s, b, 1, MSG_DONTWAIT))
CALL(rrecvfrom, rrecvfrom(d, b, 1, MSG_DONTWAIT, NULL, NULL))
CALL(rrecvmsg, rrecvmsg(s, &m, MSG_DONTWAIT))
CALL(rread, rread(s, b, 1))
CALL(rreadv, rreadv(s, &v, 1))
CALL(rpoll, rpoll(&p, 1, 0))
CALL(rgetsockname, rgetsockname(c, SA(at), &alen))
CALL(rgetpeername, rgetpeername(c, SA(at), &alen))
CALL(rsetsockopt, rsetsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one))
CALL(rgetsockopt, rgetsockopt(c, SOL_SOCKET, SO_ERROR, &one, &len))
CALL(riomap, riomap(s, b, sizeof b, PROT_WRITE, 0, -1))
CALL(riowrite, riowrite(c, b, 0, 0, 0))
CALL(riounmap, riounmap(s, b, sizeof b))
CALL(rshutdown, rshutdown(c, SHUT_WR))
CALL(rclose, rclose(c))

static void *connects(void *arg)
{
	(void)arg;
	OK(rconnect(c, SA(at), sizeof at));
	return NULL;
}

static void first(void *(*call)(void *))
{
	pthread_t t;
	OK(pthread_create(&t, NULL, call, NULL));
	OK(pthread_join(t, NULL));
}

int main(void)
{
	pthread_t t[MANY];
	OK(pthread_barrier_init(&start, NULL, MANY));
	for (int i = 0; i < MANY; i++)
		OK(pthread_create(&t[i], NULL, open_first, NULL));
	for (int i = 0; i < MANY; i++)
		OK(pthread_join(t[i], NULL));

	l = rsocket(AF_INET, SOCK_STREAM, 0);
	c = rsocket(AF_INET, SOCK_STREAM, 0);
	d = rsocket(AF_INET, SOCK_DGRAM, 0);
	at = addr("127.0.0.1", 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rgetsockname(l, SA(at), &alen));
	OK(rlisten(l, 8));
	OK(pthread_create(t, NULL, connects, NULL));
	s = raccept(l, NULL, NULL);
	CHECK(s >= 0);
	OK(pthread_join(t[0], NULL));
	OK(rfcntl(l, F_SETFL, O_NONBLOCK));
	OK(rfcntl(s, F_SETFL, O_NONBLOCK));
	p = (struct pollfd){.fd = s, .events = POLLIN};
	first(first_rsocket);
	first(first_rbind);
	first(first_rlisten);
	first(first_raccept);
	first(first_rconnect);
	first(first_rsend);
	first(first_rsendto);
	first(first_rsendmsg);
	first(first_rwrite);
	first(first_rwritev);
	first(first_rrecv);
	first(first_rrecvfrom);
	first(first_rrecvmsg);
	first(first_rread);
	first(first_rreadv);
	first(first_rpoll);
	first(first_rgetsockname);
	first(first_rgetpeername);
	first(first_rsetsockopt);
	first(first_rgetsockopt);
	first(first_riomap);
	first(first_riowrite);
	first(first_riounmap);
	first(first_rshutdown);
	first(first_rclose);
	OK(rclose(s));
	OK(rclose(l));
	OK(rclose(d));
	return 0;
}
