/* How the programs say what is wrong. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(x)                                                                                            \
	do {                                                                                                \
		if (!(x)) {                                                                                 \
			fprintf(stderr, "%s:%d: %s (errno: %s)\n", __FILE__, __LINE__, #x, strerror(errno)); \
			exit(1);                                                                            \
		}                                                                                           \
	} while (0)
#define OK(x) CHECK((x) == 0)
#define FAILS(x, e)                                                                                                  \
	do {                                                                                                         \
		errno = 0;                                                                                           \
		long r_ = (long)(x);                                                                                 \
		if (r_ != -1 || errno != (e)) {                                                                      \
			fprintf(stderr, "%s:%d: %s is %ld with %s, not %s\n", __FILE__, __LINE__, #x, r_, strerror(errno), #e); \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

static struct sockaddr_in addr(const char *ip, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}
#define SA(a) ((struct sockaddr *)&(a))
