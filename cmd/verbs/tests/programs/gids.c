// The one GID of a device has the places 0 to 3 of its table. All of them serve, and what a program has set comes back.
#include "check.h"

#define GIDS 4

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size); // <infiniband/driver.h> is not installed

static void look(struct ibv_context *c)
{
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(c, 1, &port));
	CHECK(port.gid_tbl_len == GIDS, "%d", port.gid_tbl_len);
	struct ibv_gid_entry table[GIDS], e;
	union ibv_gid first, gid;
	CHECK(!ibv_query_gid(c, 1, 0, &first));
	FAILS_INT(-EINVAL, (int)ibv_query_gid_table(c, table, GIDS - 1, 0));
	FAILS_INT(GIDS, (int)ibv_query_gid_table(c, table, GIDS, 0));
	char file[64], text[64];
	for (int i = 0; i < GIDS; i++) {
		CHECK(!ibv_query_gid(c, 1, i, &gid) && !memcmp(&gid, &first, sizeof gid));
		CHECK(!ibv_query_gid_ex(c, 1, (uint32_t)i, &e, 0));
		CHECK(e.gid_index == (uint32_t)i && e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&e.gid, &first, sizeof gid));
		CHECK(table[i].gid_index == (uint32_t)i && table[i].ndev_ifindex == e.ndev_ifindex && !memcmp(&table[i].gid, &first, sizeof gid));
		snprintf(file, sizeof file, "ports/1/gid_attrs/types/%d", i);
		CHECK(ibv_read_sysfs_file(c->device->ibdev_path, file, text, sizeof text) > 0 && !strcmp(text, "RoCE v2"));
	}
	CHECK(ibv_query_gid(c, 1, GIDS, &gid) == -1 && errno == EINVAL);
	FAILS_INT(EINVAL, ibv_query_gid_ex(c, 1, GIDS, &e, 0));
}

static struct ibv_qp_attr to_rtr(struct ibv_qp *qp, union ibv_gid peer, uint8_t index, int want)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 17, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer, .sgid_index = index, .hop_limit = 1}},
	};
	struct ibv_qp_init_attr init;
	FAILS_INT(want, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_AV, &init));
	return a;
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
}

int main(void)
{
	struct end a, b;
	end_open(&a, 0, 4096);
	end_open(&b, 1, 4096);
	look(a.ctx);
	look(b.ctx);

	struct ibv_qp *qp = end_qp(&a, IBV_QPT_RC, NULL);
	for (uint8_t i = 0; i < GIDS; i++) {
		to_init(qp);
		CHECK(to_rtr(qp, b.gid, i, 0).ah_attr.grh.sgid_index == i);
		reset(qp);
	}
	to_init(qp);
	CHECK(to_rtr(qp, b.gid, GIDS, EINVAL).ah_attr.grh.sgid_index == 0); // nothing is left from before RESET
	FAILS_INT(0, ibv_destroy_qp(qp));

	// Datagrams with each, there and back.
	a.qp = end_qp(&a, IBV_QPT_UD, NULL);
	b.qp = end_qp(&b, IBV_QPT_UD, NULL);
	to_init(a.qp);
	to_init(b.qp);
	to_rts(a.qp, 0, b.gid);
	to_rts(b.qp, 0, a.gid);
	for (uint8_t i = 0; i < GIDS; i++) {
		struct ibv_ah_attr at = {.is_global = 1, .port_num = 1, .grh = {.dgid = b.gid, .sgid_index = i, .hop_limit = 1}};
		struct ibv_ah *there = ibv_create_ah(a.pd, &at);
		CHECK(there);
		post_recv(&b, b.qp, 1, 0, 1024);
		post_recv(&a, a.qp, 2, 0, 1024);
		struct ibv_sge s = sge_of(&a, 2048, 16);
		struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {there, b.qp->qp_num, 0x11}}, *bad;
		CHECK(!ibv_post_send(a.qp, &wr, &bad));
		struct ibv_wc wc = next_wc(b.cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1);
		expect_wc(a.cq, 3, IBV_WC_SUCCESS);
		struct ibv_ah *back = ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)b.buf, 1);
		CHECK(back);
		s = sge_of(&b, 2048, 16);
		wr.wr.ud = (typeof(wr.wr.ud)){back, wc.src_qp, 0x11};
		CHECK(!ibv_post_send(b.qp, &wr, &bad));
		expect_wc(a.cq, 2, IBV_WC_SUCCESS);
		expect_wc(b.cq, 3, IBV_WC_SUCCESS);
		FAILS_INT(0, ibv_destroy_ah(there));
		FAILS_INT(0, ibv_destroy_ah(back));
	}
	end_close(&a);
	end_close(&b);
	return 0;
}
