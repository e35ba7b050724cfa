/* Two processes write 8 MiB to each other at the same time, and end when they have written and read all: with close, or without. A third
 * kind writes, closes and ends. Nothing is lost, and the end of the data is an end only where it was said. */
#include "../programs/check.h"
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>

#define LENGTH (8 << 20)

enum way { EXIT, CLOSE, NONBLOCKING, ONE_WAY, WAYS };
static const char *names[WAYS] = {"exit", "close", "close, not blocking", "one way"};

static char *pattern(unsigned int seed)
{
	char *b = malloc(LENGTH);
	uint64_t x = seed;
	for (size_t i = 0; i < LENGTH; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		b[i] = (char)(x >> 56);
	}
	return b;
}

struct writer {
	int fd;
	bool ends;
	const char *data;
};

static void *writes(void *arg)
{
	struct writer *w = arg;
	for (size_t n = 0; n < LENGTH;) {
		ssize_t k = rsend(w->fd, w->data + n, LENGTH - n > 16384 ? 16384 : LENGTH - n, 0);
		CHECK(k > 0);
		n += (size_t)k;
	}
	if (w->ends)
		OK(rshutdown(w->fd, SHUT_WR));
	return NULL;
}

static void reads(int fd, const char *want)
{
	static char b[1 << 16];
	size_t n = 0;
	for (ssize_t k; (k = rrecv(fd, b, sizeof b, 0)) != 0; n += (size_t)k) {
		CHECK(k > 0 && n + (size_t)k <= LENGTH);
		OK(memcmp(b, want + n, (size_t)k));
	}
	CHECK(n == LENGTH);
}

static int side(enum way how, int fd, unsigned int me, unsigned int peer, bool connects)
{
	char *data = pattern(me), *want = pattern(peer);
	struct writer w = {fd, how != ONE_WAY, data};
	pthread_t t;
	if (how != ONE_WAY || connects)
		OK(pthread_create(&t, NULL, writes, &w));
	if (how != ONE_WAY || !connects)
		reads(fd, want);
	if (how != ONE_WAY || connects)
		OK(pthread_join(t, NULL));
	if (how == NONBLOCKING)
		OK(rfcntl(fd, F_SETFL, O_NONBLOCK));
	if (how != EXIT)
		OK(rclose(fd));
	exit(0);
}

static void run(enum way how)
{
	int told[2];
	OK(pipe(told));
	pid_t server = fork();
	if (!server) {
		struct sockaddr_in at = addr("127.0.0.1", 0);
		socklen_t len = sizeof at;
		int l = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(l >= 0);
		OK(rbind(l, SA(at), sizeof at));
		OK(rgetsockname(l, SA(at), &len));
		OK(rlisten(l, 1));
		CHECK(write(told[1], &at.sin_port, sizeof at.sin_port) == sizeof at.sin_port);
		int fd = raccept(l, NULL, NULL);
		CHECK(fd >= 0);
		side(how, fd, 1, 2, false);
	}
	pid_t client = fork();
	if (!client) {
		struct sockaddr_in to = addr("127.0.0.1", 0);
		CHECK(read(told[0], &to.sin_port, sizeof to.sin_port) == sizeof to.sin_port);
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0);
		OK(rconnect(fd, SA(to), sizeof to));
		side(how, fd, 2, 1, true);
	}
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t p = wait(&status);
		if (status) {
			fprintf(stderr, "%s: the %s ended with %x\n", names[how], p == server ? "server" : "client", (unsigned int)status);
			exit(1);
		}
	}
	close(told[0]);
	close(told[1]);
}

int main(void)
{
	for (enum way how = 0; how < WAYS; how++)
		run(how);
	return 0;
}
