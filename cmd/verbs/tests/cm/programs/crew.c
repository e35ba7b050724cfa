/* Threads that wait for rsockets of one device receive for each other. None misses anything, whichever of them leaves, ends, is interrupted or computes. */
#include "check.h"
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

#define THREADS 12
#define ROUNDS 300

static struct sockaddr_in at;
static int l;

static void *echoes(void *socket)
{
	int fd = (int)(intptr_t)socket;
	char b[64];
	for (ssize_t n; (n = rrecv(fd, b, sizeof b, 0)) != 0;) {
		CHECK(n > 0);
		CHECK(rsend(fd, b, (size_t)n, 0) == n);
	}
	rclose(fd);
	return NULL;
}

static pthread_t server[THREADS];
static void *accepts(void *arg)
{
	for (int i = 0; i < THREADS; i++) {
		int fd = raccept(l, NULL, NULL);
		OK(fd < 0);
		OK(pthread_create(&server[i], NULL, echoes, (void *)(intptr_t)fd));
	}
	return arg;
}

static int asks; /* threads that have not finished */

static void exchange(int fd, uint32_t mine)
{
	uint32_t b[2] = {mine, ~mine}, got[2];
	CHECK(rsend(fd, b, sizeof b, 0) == sizeof b);
	CHECK(rrecv(fd, got, sizeof got, MSG_WAITALL) == sizeof got && got[0] == mine && got[1] == ~mine);
}

static void *client(void *arg)
{
	uint32_t i = (uint32_t)(uintptr_t)arg;
	struct sockaddr_in from = addr("127.0.0.2", 0);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(fd, SA(from), sizeof from));
	OK(rconnect(fd, SA(at), sizeof at));
	for (uint32_t n = 0; n < ROUNDS; n++)
		exchange(fd, i << 16 | n);
	if (!i) /* who has received for others, perhaps, calls no more until they have finished */
		while (__atomic_load_n(&asks, __ATOMIC_SEQ_CST) > 1)
			;
	if (i % 3 == 1) { /* others go on when this one has ended */
		OK(rclose(fd));
		__atomic_sub_fetch(&asks, 1, __ATOMIC_SEQ_CST);
		return NULL;
	}
	for (uint32_t n = 0; n < ROUNDS; n++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		char c = (char)n;
		CHECK(rsend(fd, &c, 1, 0) == 1);
		CHECK(rpoll(&p, 1, -1) == 1 && p.revents == POLLIN);
		char got;
		CHECK(rrecv(fd, &got, 1, 0) == 1 && got == c);
	}
	__atomic_sub_fetch(&asks, 1, __ATOMIC_SEQ_CST);
	OK(rclose(fd));
	return NULL;
}

/* stops stops the process again and again, and has it go on: no call returns for that. */
static void stops(pid_t parent, int until)
{
	char c;
	for (;;) {
		struct pollfd p = {.fd = until, .events = POLLIN};
		if (poll(&p, 1, 3))
			break;
		if (kill(parent, SIGSTOP) || kill(parent, SIGCONT))
			break;
	}
	_exit((int)read(until, &c, 1));
}

int main(void)
{
	pthread_t t[THREADS], accepting;
	int life[2], status;
	OK(pipe(life));
	pid_t parent = getpid(), child = fork();
	if (!child) {
		close(life[1]);
		stops(parent, life[0]);
	}
	close(life[0]);
	at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rlisten(l, THREADS));
	OK(rgetsockname(l, SA(at), &len));
	OK(pthread_create(&accepting, NULL, accepts, NULL));
	asks = THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		OK(pthread_create(&t[i], NULL, client, (void *)i));
	for (int i = 0; i < THREADS; i++)
		OK(pthread_join(t[i], NULL));
	OK(pthread_join(accepting, NULL));
	for (int i = 0; i < THREADS; i++)
		OK(pthread_join(server[i], NULL));
	close(life[1]);
	CHECK(waitpid(child, &status, 0) == child && !status);
	OK(rclose(l));
	return 0;
}
