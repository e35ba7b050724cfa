// Threads that come and go, and use verbs at the same time: each makes its own objects, and all share a queue.
#include "check.h"

#include <pthread.h>

static struct end a, b;

static void *work(void *arg)
{
	(void)arg;
	struct ibv_cq *cq = ibv_create_cq(a.ctx, 8, NULL, NULL, 0);
	CHECK(cq);
	char *buf = malloc(4096);
	struct ibv_mr *mr = ibv_reg_mr(a.pd, buf, 4096, ALL_ACCESS);
	CHECK(mr);
	struct ibv_wc wc;
	for (int i = 0; i < 100; i++)
		FAILS_INT(0, ibv_poll_cq(cq, 1, &wc));
	FAILS_INT(0, ibv_dereg_mr(mr));
	FAILS_INT(0, ibv_destroy_cq(cq));
	free(buf);
	return NULL;
}

// Senders and takers of one queue pair.
#define MESSAGES 2000
static int taken, sent;
static void *take(void *arg)
{
	struct end *e = arg;
	struct ibv_wc wc[4];
	while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < 2 * MESSAGES) {
		int n = ibv_poll_cq(e->cq, 4, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc[i].status));
			__atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void *send_some(void *arg)
{
	(void)arg;
	for (;;) {
		int i = __atomic_fetch_add(&sent, 1, __ATOMIC_RELAXED);
		if (i >= MESSAGES)
			return NULL;
		// No more than fits the queues at a time.
		while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < 2 * (i - 16))
			sched_yield();
		post_recv(&b, b.qp, 1, 0, 64);
		post_send(&a, 2, 64, 64);
	}
}

// patient_pair has ACK timeouts of 1 s: a thread that loses the CPU with the device's lock may be away for longer than half a second.
static void patient_pair(void)
{
	struct end *ends[] = {&a, &b};
	for (int i = 0; i < 2; i++) {
		end_open(ends[i], i, 4096);
		ends[i]->qp = end_qp(ends[i], IBV_QPT_RC, NULL);
		to_init(ends[i]->qp);
	}
	for (int i = 0; i < 2; i++)
		to_rts_with(ends[i]->qp, ends[!i]->qp->qp_num, ends[!i]->gid, 18);
}

int main(void)
{
	patient_pair();
	for (int round = 0; round < 20; round++) {
		pthread_t t[8];
		for (int i = 0; i < 8; i++)
			CHECK(!pthread_create(&t[i], NULL, work, NULL));
		for (int i = 0; i < 8; i++)
			CHECK(!pthread_join(t[i], NULL));
	}
	pthread_t t[6];
	void *(*const f[6])(void *) = {take, take, take, take, send_some, send_some};
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&t[i], NULL, f[i], i & 1 ? &a : &b));
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(taken == 2 * MESSAGES);
	end_close(&a);
	end_close(&b);
	return 0;
}
