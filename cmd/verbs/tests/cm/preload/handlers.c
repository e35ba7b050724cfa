/* A program that is not linked with the libraries: its handlers run on a stack of their own all the same, since they may interrupt Go. */
#include "../programs/check.h"
#include "handler.h"

int main(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	struct sigaction a = {.sa_handler = handler};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	OK(bind(fd, SA(at), sizeof at));
	FAILS(dup(fd), ENOTSUP); /* it is an rsocket */
	OK(sigaction(SIGUSR1, &a, NULL));
	OK(raise(SIGUSR1));
	CHECK(ran && apart);
	OK(sigaction(SIGUSR1, NULL, &a));
	CHECK(a.sa_handler == handler);
	OK(close(fd));
	return 0;
}
