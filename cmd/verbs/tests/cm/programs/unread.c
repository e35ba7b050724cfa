/* close does not wait for a peer that does not read: as TCP's, what was written follows behind it, and the end of the process
   waits for that. */
#include "check.h"
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

#define MUCH (2 << 20)

static char all[MUCH];

static int writes(int to, bool block)
{
	struct sockaddr_in at;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), half = 1 << 21;
	CHECK(read(to, &at, sizeof at) == sizeof at);
	OK(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half));
	OK(rconnect(fd, SA(at), sizeof at));
	CHECK(rsend(fd, all, MUCH, 0) == MUCH); /* the send buffer takes it */
	if (!block)
		OK(rfcntl(fd, F_SETFL, O_NONBLOCK));
	struct timespec begun, now;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	OK(rclose(fd));
	clock_gettime(CLOCK_MONOTONIC, &now);
	CHECK(now.tv_sec - begun.tv_sec < 20); /* it waited for 30 s */
	return 0;
}

static void reads(bool block, bool at_once)
{
	static char b[MUCH];
	int to[2], said[2], status;
	char c;
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	OK(pipe(to));
	OK(pipe(said));
	pid_t child = fork();
	if (!child) {
		writes(to[0], block);
		CHECK(write(said[1], "", 1) == 1);
		if (at_once)
			_exit(0);
		exit(0); /* both wait for the reader */
	}
	int l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rlisten(l, 1));
	OK(rgetsockname(l, SA(at), &len));
	CHECK(write(to[1], &at, sizeof at) == sizeof at);
	int fd = raccept(l, NULL, NULL);
	CHECK(fd >= 0);
	close(said[1]);
	CHECK(read(said[0], &c, 1) == 1); /* it has closed */
	CHECK(rrecv(fd, b, MUCH, MSG_WAITALL) == MUCH && !memcmp(b, all, MUCH));
	CHECK(rrecv(fd, b, 1, 0) == 0);
	OK(rclose(fd));
	OK(rclose(l));
	CHECK(waitpid(child, &status, 0) == child && !status);
	close(said[0]);
	close(to[0]);
	close(to[1]);
	exit(0);
}

int main(void)
{
	for (int i = 0; i < MUCH; i++)
		all[i] = (char)(i * 7 + i / 1000);
	for (int i = 0; i < 4; i++) { /* each in a process that has no Go yet */
		int status;
		pid_t p = fork();
		if (!p)
			reads(i & 1, i & 2);
		CHECK(waitpid(p, &status, 0) == p && !status);
	}
	return 0;
}
