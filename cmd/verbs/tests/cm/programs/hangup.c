/* The end of a connection, and what has come before it: poll hides no data behind POLLHUP from a program that wants to read. */
#include "check.h"
#include <rdma/rsocket.h>

static void *peer(void *at)
{
	struct sockaddr_in to = *(struct sockaddr_in *)at;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rconnect(fd, SA(to), sizeof to));
	for (int i = 0; i < 10; i++)
		CHECK(rsend(fd, "0123456789", 10, 0) == 10);
	OK(rclose(fd));
	return NULL;
}

static int look(int fd, int events)
{
	struct pollfd p = {.fd = fd, .events = events};
	CHECK(rpoll(&p, 1, -1) == 1);
	return p.revents;
}

int main(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	pthread_t t;
	char b[10];
	int l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rgetsockname(l, SA(at), &len));
	OK(rlisten(l, 1));
	OK(pthread_create(&t, NULL, peer, &at));
	int fd = raccept(l, NULL, NULL);
	CHECK(fd >= 0);
	OK(pthread_join(t, NULL));
	CHECK(look(fd, 0) == POLLHUP); /* it waits for nothing else */
	for (int i = 0; i < 10; i++) {
		CHECK(look(fd, POLLIN) == POLLIN);
		CHECK(rrecv(fd, b, sizeof b, 0) == 10);
	}
	CHECK(look(fd, POLLIN) == (POLLIN | POLLHUP));
	CHECK(rrecv(fd, b, sizeof b, 0) == 0);
	OK(rclose(fd));
	OK(rclose(l));
	return 0;
}
