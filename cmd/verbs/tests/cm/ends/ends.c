/* Two processes: one ends without a goodbye, and the other one hears of it at once. */
#include "../programs/check.h"
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/wait.h>

/* leaver connects, writes, and ends. */
static void leaver(const char *port)
{
	struct sockaddr_in a = addr("127.0.0.1", atoi(port));
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	OK(rconnect(fd, SA(a), sizeof a));
	CHECK(rsend(fd, "last words", 10, 0) == 10);
	exit(0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		leaver(argv[1]);
	struct sockaddr_in a = addr("127.0.0.1", 0);
	socklen_t len = sizeof a;
	int l = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(l >= 0);
	OK(rbind(l, SA(a), sizeof a));
	OK(rlisten(l, 1));
	OK(rgetsockname(l, SA(a), &len));
	char port[8], b[20];
	snprintf(port, sizeof port, "%u", ntohs(a.sin_port));
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		setenv("GOROCE_ADDR", "127.0.0.2", 1);
		execl(argv[0], argv[0], port, NULL);
		_exit(127);
	}
	int status, fd = raccept(l, NULL, NULL);
	CHECK(fd >= 0);
	CHECK(rrecv(fd, b, 10, MSG_WAITALL) == 10 && !memcmp(b, "last words", 10));
	CHECK(rrecv(fd, b, 1, 0) == 0); /* without the goodbye it would wait for keep-alive */
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(rclose(fd));
	OK(rclose(l));
	return 0;
}
