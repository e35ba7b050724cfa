// ibv_query_qp changes nothing of the program's queue pair, but for its state, and that only where it is asked for. A partition
// key that the table has not is refused.
#include "check.h"

int main(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp before = *a.qp;
	a.qp->state = IBV_QPS_SQE; // as after a call of the program's own
	before.state = IBV_QPS_SQE;
	CHECK(!ibv_query_qp(a.qp, &attr, IBV_QP_CAP | IBV_QP_PORT, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS);
	CHECK(!memcmp(&before, a.qp, sizeof before));
	CHECK(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	CHECK(a.qp->state == IBV_QPS_RTS);
	before.state = IBV_QPS_RTS;
	CHECK(!memcmp(&before, a.qp, sizeof before));
	post_recv(&b, b.qp, 1, 0, 64);
	post_send(&a, 2, 64, 64);
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);

	struct ibv_qp *other = end_qp(&a, IBV_QPT_RC, NULL);
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 1};
	int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	FAILS_INT(EINVAL, ibv_modify_qp(other, &to, mask));
	CHECK(other->state == IBV_QPS_RESET);
	to.pkey_index = 0;
	CHECK(!ibv_modify_qp(other, &to, mask));
	CHECK(!ibv_destroy_qp(other));
	end_close(&a);
	end_close(&b);
	return 0;
}
