// What a program can get wrong: each mistake is answered with the errno that rdma-core or the kernel has for it.
#include "check.h"

#define NO_HANDLE 0xfffffff0

int main(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_context *c = a.ctx;

	// Sizes and numbers.
	FAILS(EINVAL, ibv_create_cq(c, 0, NULL, NULL, 0));
	FAILS(EINVAL, ibv_create_cq(c, -1, NULL, NULL, 0));
	FAILS(EINVAL, ibv_create_cq(c, INT32_MAX, NULL, NULL, 0));
	FAILS(EINVAL, ibv_create_cq(c, 1, NULL, NULL, c->num_comp_vectors));
	FAILS(EINVAL, ibv_create_cq(c, 1, NULL, NULL, -1));
	FAILS(EINVAL, ibv_reg_mr(a.pd, NULL, 4096, 0));
	FAILS(EINVAL, ibv_reg_mr(a.pd, (void *)(UINTPTR_MAX - 4095), 8192, 0));
	FAILS(EINVAL, ibv_reg_mr(a.pd, a.buf, 4096, IBV_ACCESS_REMOTE_WRITE)); // without LOCAL_WRITE
	FAILS(EINVAL, ibv_reg_mr(a.pd, a.buf, 4096, 1 << 15));
	FAILS(EOPNOTSUPP, ibv_reg_mr(a.pd, a.buf, 4096, IBV_ACCESS_ON_DEMAND));
	FAILS(EFAULT, ibv_reg_mr(a.pd, (void *)4096, 4096, 0)); // nothing is mapped there
	struct ibv_qp_init_attr q = {.send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1 << 30}};
	FAILS(EINVAL, ibv_create_qp(a.pd, &q));
	q.cap = (struct ibv_qp_cap){.max_send_sge = 1000};
	FAILS(EINVAL, ibv_create_qp(a.pd, &q));
	q.cap = (struct ibv_qp_cap){.max_inline_data = 1 << 30};
	FAILS(EINVAL, ibv_create_qp(a.pd, &q));
	q.cap = (struct ibv_qp_cap){0};
	q.qp_type = 77;
	FAILS(EOPNOTSUPP, ibv_create_qp(a.pd, &q));
	q.qp_type = IBV_QPT_RAW_PACKET;
	FAILS(EOPNOTSUPP, ibv_create_qp(a.pd, &q));
	q.qp_type = IBV_QPT_RC;
	q.send_cq = NULL;
	FAILS(EINVAL, ibv_create_qp(a.pd, &q));
	struct ibv_srq_init_attr s = {.attr = {.max_wr = 0, .max_sge = 1}};
	FAILS(EINVAL, ibv_create_srq(a.pd, &s));
	s.attr.max_wr = UINT32_MAX;
	FAILS(EINVAL, ibv_create_srq(a.pd, &s));

	// States and masks.
	struct ibv_qp *qp = end_qp(&a, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	FAILS_INT(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	errno = 0;
	FAILS_INT(EINVAL, ibv_modify_qp(qp, &attr, 1 << 30));
	CHECK(errno == EINVAL, "what a call of the kernel leaves, and programs print");
	attr.qp_state = 55;
	FAILS_INT(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 2};
	FAILS_INT(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(qp->state == IBV_QPS_RESET);
	struct ibv_sge e = sge_of(&a, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &e, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = NULL;
	FAILS_INT(EINVAL, ibv_post_send(qp, &wr, &bad)); // in RESET
	CHECK(bad == &wr);
	struct ibv_recv_wr rwr = {.sg_list = &e, .num_sge = 1}, *rbad = NULL;
	FAILS_INT(EINVAL, ibv_post_recv(qp, &rwr, &rbad));
	CHECK(rbad == &rwr);
	FAILS_INT(0, ibv_destroy_qp(qp));

	// Requests.
	wr.opcode = 99;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	wr.opcode = IBV_WR_TSO;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = -1;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	wr.num_sge = 1;
	wr.sg_list = NULL;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	wr.opcode = IBV_WR_BIND_MW;
	wr.num_sge = 0;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	rwr.num_sge = 100;
	FAILS_INT(EINVAL, ibv_post_recv(a.qp, &rwr, &rbad));
	rwr.num_sge = 1;
	for (int i = 0; i < 64; i++)
		CHECK(!ibv_post_recv(a.qp, &rwr, &rbad));
	int full = 0;
	for (int i = 0; i < 1 << 16 && !full; i++)
		full = ibv_post_recv(a.qp, &rwr, &rbad);
	CHECK(full == ENOMEM, "is %d", full);

	// Lists that are rings end where the queue does.
	rwr.next = &rwr;
	rbad = NULL;
	FAILS_INT(ENOMEM, ibv_post_recv(a.qp, &rwr, &rbad));
	CHECK(rbad == &rwr);
	struct ibv_srq *srq = ibv_create_srq(a.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 10, .max_sge = 1}});
	CHECK(srq);
	rbad = NULL;
	FAILS_INT(ENOMEM, ibv_post_srq_recv(srq, &rwr, &rbad));
	CHECK(rbad == &rwr);
	FAILS_INT(0, ibv_destroy_srq(srq));
	wr.next = &wr;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	wr.next = NULL;
	rwr.next = NULL;

	// Datagrams.
	struct ibv_ah_attr ah = {.is_global = 0, .port_num = 1};
	FAILS(EINVAL, ibv_create_ah(a.pd, &ah));
	ah = (struct ibv_ah_attr){.is_global = 1, .port_num = 2, .grh.dgid = b.gid};
	FAILS(EINVAL, ibv_create_ah(a.pd, &ah));
	ah = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = b.gid, .sgid_index = 9}};
	FAILS(EINVAL, ibv_create_ah(a.pd, &ah));
	struct ibv_qp *ud = end_qp(&a, IBV_QPT_UD, NULL);
	to_init(ud);
	to_rts(ud, 0, b.gid);
	wr = (struct ibv_send_wr){.sg_list = &e, .num_sge = 1, .opcode = IBV_WR_SEND};
	FAILS_INT(EINVAL, ibv_post_send(ud, &wr, &bad)); // without an address
	FAILS_INT(EINVAL, ibv_attach_mcast(ud, &b.gid, 0)); // no group
	FAILS_INT(0, ibv_destroy_qp(ud));

	// Handles that are of nothing.
	uint32_t was = a.pd->handle;
	a.pd->handle = NO_HANDLE;
	FAILS(EINVAL, ibv_reg_mr(a.pd, a.buf, 64, 0));
	FAILS_INT(EINVAL, ibv_dealloc_pd(a.pd));
	a.pd->handle = 0;
	FAILS_INT(EINVAL, ibv_dealloc_pd(a.pd));
	a.pd->handle = was;
	FAILS_INT(EBUSY, ibv_dealloc_pd(a.pd));
	was = a.mr->handle;
	a.mr->handle = NO_HANDLE;
	FAILS_INT(EINVAL, ibv_dereg_mr(a.mr));
	a.mr->handle = was;

	// Ports, tables and files that there are not.
	struct ibv_port_attr port;
	FAILS_INT(EINVAL, ibv_query_port(c, 0, &port));
	FAILS_INT(EINVAL, ibv_query_port(c, 2, &port));
	int fd = dup(c->cmd_fd); // to import a device from
	CHECK(fd >= 0);
	FAILS(EOPNOTSUPP, ibv_import_device(fd));
	close(fd);
	union ibv_gid gid;
	FAILS_INT(-1, ibv_query_gid(c, 1, 1000, &gid));
	FAILS_INT(-1, ibv_query_gid(c, 1, -1, &gid));
	struct ibv_gid_entry entry;
	FAILS_INT(EINVAL, ibv_query_gid_ex(c, 1, 1000, &entry, 0));
	FAILS_INT(EOPNOTSUPP, ibv_query_gid_ex(c, 1, 0, &entry, 1));
	__be16 pkey;
	FAILS_INT(-1, ibv_query_pkey(c, 1, 1, &pkey));
	char text[64];
	FAILS_INT(-1, ibv_read_sysfs_file(c->device->ibdev_path, "nothing", text, sizeof text));
	FAILS_INT(-1, ibv_read_sysfs_file("/nowhere", "nothing", text, sizeof text));

	// What there is not.
	FAILS(EOPNOTSUPP, ibv_open_xrcd(c, &(struct ibv_xrcd_init_attr){0}));
	FAILS(EOPNOTSUPP, ibv_alloc_dm(c, &(struct ibv_alloc_dm_attr){.length = 64}));
	FAILS(EOPNOTSUPP, ibv_alloc_null_mr(a.pd));
	FAILS(EOPNOTSUPP, ibv_alloc_td(c, &(struct ibv_td_init_attr){0}));
	FAILS(EOPNOTSUPP, ibv_create_flow(a.qp, &(struct ibv_flow_attr){0}));
	FAILS(EOPNOTSUPP, ibv_create_counters(c, &(struct ibv_counters_init_attr){0}));
	FAILS(EOPNOTSUPP, ibv_reg_dmabuf_mr(a.pd, 0, 4096, 0, 0, 0));
	FAILS(EOPNOTSUPP, ibv_import_device(0));
	FAILS_INT(EOPNOTSUPP, ibv_advise_mr(a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &e, 1));
	struct ibv_qp_init_attr_ex x = {.send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_RC, .pd = a.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = IBV_QP_CREATE_SCATTER_FCS};
	FAILS(EOPNOTSUPP, ibv_create_qp_ex(c, &x));
	x.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	x.send_ops_flags = IBV_QP_EX_WITH_TSO;
	FAILS(EOPNOTSUPP, ibv_create_qp_ex(c, &x));
	CHECK(!ibv_qp_to_qp_ex(a.qp));
	struct ibv_srq_init_attr_ex sx = {.attr = {4, 1, 0}, .pd = a.pd, .srq_type = IBV_SRQT_XRC,
					  .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE};
	FAILS(EOPNOTSUPP, ibv_create_srq_ex(c, &sx));

	// Objects that others need.
	FAILS_INT(EBUSY, ibv_destroy_cq(a.cq));
	FAILS_INT(EBUSY, ibv_destroy_comp_channel(a.channel));
	end_close(&a);
	end_close(&b);
	return 0;
}
