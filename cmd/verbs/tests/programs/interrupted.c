// A handler of a signal ends the process, wherever the program was then: in the library, too.
#include "check.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#define CHILDREN 4

static void ends(int sig)
{
	(void)sig;
	exit(7);
}

static int works(int child)
{
	static struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 1 << 16);
	signal(SIGALRM, ends);
	struct itimerval t = {.it_value.tv_usec = 3000 + 1700 * child};
	setitimer(ITIMER_REAL, &t, NULL);
	for (uint64_t n = 1;; n++) {
		post_rdma(&a, IBV_WR_RDMA_WRITE, n, 0, 8, (uintptr_t)b.buf, b.mr->rkey);
		expect_wc(a.cq, n, IBV_WC_SUCCESS);
	}
}

int main(void)
{
	for (int i = 0; i < CHILDREN; i++)
		if (!fork())
			return works(i);
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned int)status);
	}
	return 0;
}
