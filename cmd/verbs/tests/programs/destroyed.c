// The receives of a queue pair end with it, and what was flushed. What was sent can still be polled, and all of other queue pairs, in
// their order.
#include "check.h"

static struct end a, b;

// message sends to one of b's queue pairs, and returns when that has its completion: it was acknowledged.
static void message(struct ibv_qp *from, struct ibv_qp *to, uint64_t id)
{
	post_recv(&b, to, id, 0, 64);
	struct ibv_sge s = sge_of(&a, 64, 64);
	struct ibv_send_wr wr = {.wr_id = 100, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	CHECK(!ibv_post_send(from, &wr, &bad));
	expect_wc(a.cq, 100, IBV_WC_SUCCESS);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_qp *from = end_qp(&a, IBV_QPT_RC, NULL), *to = end_qp(&b, IBV_QPT_RC, NULL);
	connect_qps(&a, from, &b, to);
	message(from, to, 1);
	message(a.qp, b.qp, 2);
	message(from, to, 3);
	message(a.qp, b.qp, 4);
	message(from, to, 5);
	struct ibv_sge s = sge_of(&b, 64, 64);
	struct ibv_send_wr wr = {.wr_id = 8, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)a.buf, a.mr->rkey}}, *bad;
	CHECK(!ibv_post_send(to, &wr, &bad));
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD};
	CHECK(!ibv_modify_qp(to, &sqd, IBV_QP_STATE));
	do
		CHECK(!ibv_query_qp(to, &attr, IBV_QP_STATE, &init));
	while (attr.sq_draining);
	post_recv(&b, to, 6, 0, 64); // what is flushed is no news, either
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(to, &err, IBV_QP_STATE));
	FAILS_INT(0, ibv_destroy_qp(to));
	expect_wc(b.cq, 2, IBV_WC_SUCCESS);
	expect_wc(b.cq, 4, IBV_WC_SUCCESS);
	expect_wc(b.cq, 8, IBV_WC_SUCCESS);
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(b.cq, 1, &wc) == 0);
	message(a.qp, b.qp, 7);
	expect_wc(b.cq, 7, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_destroy_qp(from));
	end_close(&a);
	end_close(&b);
	return 0;
}
