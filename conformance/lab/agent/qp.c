/* Queue pairs: create, modify, query. */
#include "verbsd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static enum ibv_qp_type qp_type(void)
{
	const char *t = need("type");
	if (!strcmp(t, "rc"))
		return IBV_QPT_RC;
	if (!strcmp(t, "uc"))
		return IBV_QPT_UC;
	if (!strcmp(t, "ud"))
		return IBV_QPT_UD;
	fail(EINVAL, "type %s", t);
}

static void cmd_qp(void)
{
	struct object *srq = opt_obj("srq", K_SRQ);
	struct ibv_qp_init_attr_ex a = {
		.send_cq = need_obj("send_cq", K_CQ)->p,
		.recv_cq = need_obj("recv_cq", K_CQ)->p,
		.srq = srq ? srq->p : NULL,
		.cap = {
			.max_send_wr = num("max_send_wr", 64), .max_recv_wr = num("max_recv_wr", 64),
			.max_send_sge = num("max_send_sge", 4), .max_recv_sge = num("max_recv_sge", 4),
			.max_inline_data = num("max_inline", 0),
		},
		.qp_type = qp_type(),
		.sq_sig_all = num("sig_all", 0),
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = need_obj("pd", K_PD)->p,
	};
	/* ops: IBV_QP_EX_WITH_* bits; asks for the extended interface, which alone has
	 * ATOMIC WRITE and FLUSH. */
	if (has("ops")) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = need_num("ops");
	}
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &a);
	int id = object_new(K_QP, qp);
	if (has("ops"))
		object_get(id, K_QP)->qpx = ibv_qp_to_qp_ex(qp);
	out(" id=%d qpn=0x%x max_inline=%u max_send_wr=%u max_recv_wr=%u", id, qp->qp_num, a.cap.max_inline_data,
	    a.cap.max_send_wr, a.cap.max_recv_wr);
}

/* modify: an attribute that is named is in the mask. */
static void cmd_modify(void)
{
	struct ibv_qp_attr a = {0};
	int mask = 0;
#define ATTR(key, field, bit) \
	if (has(key)) { \
		a.field = num(key, 0); \
		mask |= bit; \
	}
	ATTR("state", qp_state, IBV_QP_STATE)
	ATTR("cur_state", cur_qp_state, IBV_QP_CUR_STATE)
	ATTR("access", qp_access_flags, IBV_QP_ACCESS_FLAGS)
	ATTR("pkey_index", pkey_index, IBV_QP_PKEY_INDEX)
	ATTR("port", port_num, IBV_QP_PORT)
	ATTR("qkey", qkey, IBV_QP_QKEY)
	ATTR("path_mtu", path_mtu, IBV_QP_PATH_MTU)
	ATTR("timeout", timeout, IBV_QP_TIMEOUT)
	ATTR("retry_cnt", retry_cnt, IBV_QP_RETRY_CNT)
	ATTR("rnr_retry", rnr_retry, IBV_QP_RNR_RETRY)
	ATTR("rq_psn", rq_psn, IBV_QP_RQ_PSN)
	ATTR("sq_psn", sq_psn, IBV_QP_SQ_PSN)
	ATTR("max_rd_atomic", max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC)
	ATTR("max_dest_rd_atomic", max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC)
	ATTR("min_rnr_timer", min_rnr_timer, IBV_QP_MIN_RNR_TIMER)
	ATTR("dest_qpn", dest_qp_num, IBV_QP_DEST_QPN)
	ATTR("sqd_notify", en_sqd_async_notify, IBV_QP_EN_SQD_ASYNC_NOTIFY)
#undef ATTR
	if (has("dgid")) {
		mask |= IBV_QP_AV;
		a.ah_attr = (struct ibv_ah_attr){
			.is_global = 1, .port_num = 1, .sl = num("sl", 0),
			.grh = {.sgid_index = need_num("sgid_index"), .hop_limit = num("hop_limit", 64), .traffic_class = num("tclass", 0), .flow_label = num("flow_label", 0)},
		};
		need_gid("dgid", &a.ah_attr.grh.dgid);
	}
	int err = ibv_modify_qp(need_obj("qp", K_QP)->p, &a, mask);
	if (err)
		fail(err, "modify");
}

static void cmd_query(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	int err = ibv_query_qp(need_obj("qp", K_QP)->p, &a, 0x1fffff, &i);
	if (err)
		fail(err, "query");
	char gid[INET6_ADDRSTRLEN];
	inet_ntop(AF_INET6, a.ah_attr.grh.dgid.raw, gid, sizeof gid);
	out(" state=%d path_mtu=%d qkey=0x%x rq_psn=0x%x sq_psn=0x%x dest_qpn=0x%x access=0x%x max_rd_atomic=%d max_dest_rd_atomic=%d"
	    " min_rnr_timer=%d timeout=%d retry_cnt=%d rnr_retry=%d sq_draining=%d dgid=%s sgid_index=%d tclass=%d",
	    a.qp_state, a.path_mtu, a.qkey, a.rq_psn, a.sq_psn, a.dest_qp_num, a.qp_access_flags, a.max_rd_atomic, a.max_dest_rd_atomic,
	    a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry, a.sq_draining, gid, a.ah_attr.grh.sgid_index, a.ah_attr.grh.traffic_class);
}

const struct command qp_commands[] = {{"qp", cmd_qp}, {"modify", cmd_modify}, {"query", cmd_query}, {NULL, NULL}};
