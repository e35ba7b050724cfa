// Memory that is registered needs no protection from fork, whatever the environment asks for: the child has a copy of it, and what comes from
// the network reaches the parent's.
#include "check.h"

#include <sys/wait.h>

static void answers(void)
{
	CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	FAILS_INT(0, ibv_fork_init());
	CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED); // as on a kernel that copies at fork, whether ibv_fork_init was called or not
}

static void stays(struct end *a, struct end *b)
{
	int go[2], status;
	char c;
	CHECK(!pipe(go));
	memset(b->buf, 'o', 64);
	pid_t child = fork();
	if (!child) {
		CHECK(close(go[1]) == 0 && read(go[0], &c, 1) == 1);
		for (int i = 0; i < 64; i++)
			CHECK(b->buf[i] == 'o');
		memset(b->buf, 'c', 64);
		_exit(3);
	}
	memset(a->buf, 'n', 64);
	post_rdma(a, IBV_WR_RDMA_WRITE, 1, 0, 64, (uintptr_t)b->buf, b->mr->rkey);
	expect_wc(a->cq, 1, IBV_WC_SUCCESS);
	CHECK(write(go[1], "", 1) == 1 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	for (int i = 0; i < 64; i++)
		CHECK(b->buf[i] == 'n');
	post_rdma(a, IBV_WR_RDMA_READ, 2, 64, 64, (uintptr_t)b->buf, b->mr->rkey);
	expect_wc(a->cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(a->buf + 64, b->buf, 64));
	close(go[0]), close(go[1]);
}

int main(int argc, char **argv)
{
	static const char *const ask[] = {"RDMAV_FORK_SAFE", "IBV_FORK_SAFE", "RDMAV_HUGEPAGES_SAFE", "RDMAV_USE_MADVISE"};
	int next = argc > 1 ? atoi(argv[1]) : 0;
	struct end a, b;
	answers();
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	answers(); // and not EINVAL, although memory is registered
	stays(&a, &b);
	end_close(&a);
	end_close(&b);
	if (next < (int)(sizeof ask / sizeof *ask)) {
		char number[16];
		snprintf(number, sizeof number, "%d", next + 1);
		CHECK(!setenv(ask[next], "1", 1));
		execl(argv[0], argv[0], number, NULL);
		CHECK(!"executed");
	}
	return 0;
}
