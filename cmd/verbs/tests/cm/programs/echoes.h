/* A thread that answers with what it gets, until the connection ends. */
#include "check.h"
#include <rdma/rsocket.h>
#include <stdint.h>

static void *echoes(void *socket)
{
	int fd = (int)(intptr_t)socket;
	char b[64];
	for (ssize_t n; (n = rrecv(fd, b, sizeof b, 0)) > 0;)
		CHECK(rsend(fd, b, (size_t)n, 0) == n);
	rclose(fd);
	return NULL;
}
