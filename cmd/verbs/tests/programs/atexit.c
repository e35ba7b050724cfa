// A process that ends with everything open: destructors and functions of atexit use verbs, threads are in the middle of it.
#include "check.h"

#include <pthread.h>

static struct end a, b;

static void *poll_for_ever(void *arg)
{
	struct ibv_wc wc;
	for (;;)
		ibv_poll_cq(arg, 1, &wc);
	return NULL;
}

static void *wait_for_ever(void *arg)
{
	struct ibv_cq *cq;
	void *context;
	ibv_get_cq_event(arg, &cq, &context);
	return NULL;
}

static void at_exit(void)
{
	FAILS_INT(0, ibv_destroy_qp(a.qp));
	puts("atexit");
}

__attribute__((destructor)) static void destructor(void)
{
	if (!a.mr)
		return;
	FAILS_INT(0, ibv_dereg_mr(a.mr));
	puts("destructor");
	fflush(stdout);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, poll_for_ever, a.cq));
	CHECK(!pthread_create(&t, NULL, wait_for_ever, b.channel));
	atexit(at_exit);
	exit(9);
}
