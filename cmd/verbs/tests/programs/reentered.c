// A handler of a signal calls verbs, wherever it has interrupted the program: in a call of verbs as well, about the same objects. GASNet
// ends its job so.
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static struct end a, b;
static volatile int posted, done, alarms;

static void take(struct ibv_cq *cq, int most)
{
	struct ibv_wc wc[2];
	int n = ibv_poll_cq(cq, most, wc);
	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS, "is %s", ibv_wc_status_str(wc[i].status));
	__atomic_add_fetch(&done, n, __ATOMIC_RELAXED);
}

// exchange has a message sent, and polls a few times. What it finds may be that of another call.
static void exchange(void)
{
	post_recv(&b, b.qp, 1, 0, 64);
	post_send(&a, 2, 64, 64);
	__atomic_add_fetch(&posted, 2, __ATOMIC_RELAXED);
	for (int i = 0; i < 40; i++)
		take(i % 2 ? a.cq : b.cq, 2);
	CHECK(!ibv_req_notify_cq(a.cq, 0));
}

static void on_alarm(int sig)
{
	int saved = errno;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	(void)sig;
	alarms++;
	if (posted - done < 60)
		exchange();
	CHECK(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	errno = saved;
}

static sigjmp_buf back;
static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	CHECK(signal(SIGALRM, on_alarm) == SIG_DFL);
	struct itimerval often = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	while (alarms < 2000) {
		if (posted - done < 40)
			exchange();
		take(a.cq, 1);
		take(b.cq, 1);
		struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buf, 64, 0);
		CHECK(mr);
		FAILS_INT(0, ibv_dereg_mr(mr));
	}
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	while (done < posted) {
		take(a.cq, 2);
		take(b.cq, 2);
	}

	// What leaves a call by a fault leaves no handler waiting.
	CHECK(signal(SIGSEGV, on_fault) == SIG_DFL);
	post_recv(&b, b.qp, 1, 0, 64);
	post_send(&a, 2, 64, 64);
	if (!sigsetjmp(back, 1))
		for (;;)
			ibv_poll_cq(b.cq, 1, (struct ibv_wc *)16);
	alarms = 0;
	posted = done + 100; // no more of it: the queue stays locked
	CHECK(!raise(SIGALRM) && alarms == 1);
	return 0;
}
