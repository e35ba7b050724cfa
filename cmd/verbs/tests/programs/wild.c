// Pointers that lead nowhere: the program gets the SIGSEGV, in its own call, and can go on; without a handler it ends by it.
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf back;
static void *volatile fault;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	fault = info->si_addr;
	siglongjmp(back, 1);
}

#define FAULTS(call)                                                                              \
	do {                                                                                      \
		fault = NULL;                                                                     \
		if (!sigsetjmp(back, 1))                                                          \
			(void)(call);                                                             \
		CHECK(fault >= nowhere && fault < nowhere + 4096, "%s: %p", #call, (void *)fault); \
	} while (0)

int main(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_qp *ud = end_qp(&a, IBV_QPT_UD, NULL);
	to_init(ud);
	to_rts(ud, 0, b.gid);
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(nowhere != MAP_FAILED);
	struct sigaction s = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(!sigaction(SIGSEGV, &s, NULL));

	struct ibv_sge out[2] = {{.addr = (uintptr_t)a.buf, .length = 8}, {.addr = (uintptr_t)nowhere, .length = 8}};
	struct ibv_send_wr good = {.wr_id = 1, .sg_list = out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	struct ibv_send_wr wr = good, *bad;
	wr.num_sge = 2;
	FAULTS(ibv_post_send(a.qp, &wr, &bad));
	wr.num_sge = 1;
	wr.sg_list = &out[1];
	FAULTS(ibv_post_send(a.qp, &wr, &bad));
	wr.sg_list = nowhere;
	FAULTS(ibv_post_send(a.qp, &wr, &bad));
	wr.send_flags = IBV_SEND_SIGNALED;
	FAULTS(ibv_post_send(a.qp, &wr, &bad));
	wr = good;
	wr.next = nowhere;
	FAULTS(ibv_post_send(a.qp, &wr, &bad));
	wr = good;
	wr.wr.ud.ah = nowhere;
	FAULTS(ibv_post_send(ud, &wr, &bad));
	FAULTS(ibv_post_send(a.qp, nowhere, &bad));
	struct ibv_recv_wr in = {.sg_list = nowhere, .num_sge = 1}, *bad_in;
	FAULTS(ibv_post_recv(a.qp, &in, &bad_in));
	FAULTS(ibv_post_recv(a.qp, nowhere, &bad_in));

	// What is too long is refused without a look at it.
	wr = good;
	wr.num_sge = 2;
	out[1].length = 1 << 30;
	CHECK(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.num_sge = INT32_MAX;
	CHECK(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr = good;
	wr.num_sge = 2;
	struct ibv_recv_wr endless = {.sg_list = out, .num_sge = INT32_MAX};
	CHECK(ibv_post_recv(a.qp, &endless, &bad_in) == EINVAL && bad_in == &endless);
	struct ibv_srq *srq = ibv_create_srq(a.pd, &(struct ibv_srq_init_attr){.attr = {4, 1, 0}});
	CHECK(srq && ibv_post_srq_recv(srq, &endless, &bad_in) == EINVAL && bad_in == &endless);
	FAILS_INT(0, ibv_destroy_srq(srq));
	out[1].length = 0; // and of nothing there is nothing to see
	FAILS_INT(0, ibv_post_send(a.qp, &wr, &bad));
	post_recv(&b, b.qp, 3, 64, 64);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	expect_wc(b.cq, 3, IBV_WC_SUCCESS);

	CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
	ibv_post_send(a.qp, nowhere, &bad);
	return 1;
}
