// A queue pair that goes back to RESET takes its completions along, and those of others stay, in their order. It is a new one
// afterwards. A completion queue does not become smaller than what it holds.
#include "check.h"

int main(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	// Another pair on the same completion queues.
	struct ibv_qp *other_a = end_qp(&a, IBV_QPT_RC, NULL), *other_b = end_qp(&b, IBV_QPT_RC, NULL), *first = a.qp;
	connect_qps(&a, other_a, &b, other_b);
	for (uint64_t i = 0; i < 8; i++) {
		a.qp = i % 2 ? other_a : first;
		post_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, (uintptr_t)b.buf, b.mr->rkey);
	}
	a.qp = first;
	// Requests of one queue pair complete in order: when its last has completed, all have.
	struct ibv_qp *last[] = {first, other_a};
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD};
		CHECK(!ibv_modify_qp(last[i], &sqd, IBV_QP_STATE));
		do
			CHECK(!ibv_query_qp(last[i], &attr, IBV_QP_STATE, &init));
		while (attr.sq_draining);
	}
	int cqe = a.cq->cqe;
	FAILS_INT(EINVAL, ibv_resize_cq(a.cq, 1));
	CHECK(a.cq->cqe == cqe);
	post_recv(&a, first, 77, 0, 64); // goes without a completion

	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(first, &attr, IBV_QP_STATE));
	for (uint64_t i = 1; i < 8; i += 2)
		expect_wc(a.cq, i, IBV_WC_SUCCESS);
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(a.cq, 1, &wc) == 0);

	CHECK(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE));
	connect_qps(&a, first, &b, b.qp);
	post_recv(&b, b.qp, 1, 0, 64);
	post_send(&a, 2, 64, 64);
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(other_a));
	CHECK(!ibv_destroy_qp(other_b));
	end_close(&a);
	end_close(&b);
	return 0;
}
