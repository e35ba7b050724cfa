// All operations by both ways to post, extended queues, shared receive queues, datagrams, and queues that are resized.
#include "check.h"

#include <endian.h>

static struct end a, b;

static struct ibv_qp_ex *create_ex(struct end *e, uint64_t ops)
{
	struct ibv_qp_init_attr_ex x = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .pd = e->pd,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &x);
	CHECK(qp);
	return ibv_qp_to_qp_ex(qp);
}

static void old_way(void)
{
	struct ibv_send_wr *bad;
	strcpy(a.buf, "written");
	post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, (uintptr_t)b.buf, b.mr->rkey);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf, "written"));
	strcpy(b.buf, "readout");
	post_rdma(&a, IBV_WR_RDMA_READ, 2, 64, 8, (uintptr_t)b.buf, b.mr->rkey);
	struct ibv_wc wc = next_wc(a.cq);
	CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_RDMA_READ && !strcmp(a.buf + 64, "readout"));

	uint64_t *word = (uint64_t *)(b.buf + 128), *old = (uint64_t *)(a.buf + 128);
	*word = 5;
	struct ibv_sge s = sge_of(&a, 128, 8);
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {(uintptr_t)word, 7, 0, b.mr->rkey}};
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	wc = next_wc(a.cq);
	CHECK(wc.opcode == IBV_WC_FETCH_ADD && *word == 12 && *old == 5);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 12;
	wr.wr.atomic.swap = 99;
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	wc = next_wc(a.cq);
	CHECK(wc.opcode == IBV_WC_COMP_SWAP && *word == 99 && *old == 12);

	// Two pieces of memory that is registered nowhere, and an immediate in network byte order.
	char *one = strdup("inline "), *two = strdup("data");
	struct ibv_sge list[2] = {{(uintptr_t)one, 7, 0}, {(uintptr_t)two, 5, 0}};
	wr = (struct ibv_send_wr){.wr_id = 4, .sg_list = list, .num_sge = 2, .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .imm_data = htobe32(0x01020304)};
	post_recv(&b, b.qp, 5, 256, 64);
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	memset(one, 'x', 7);
	memset(two, 'x', 4);
	expect_wc(a.cq, 4, IBV_WC_SUCCESS);
	wc = next_wc(b.cq);
	CHECK(wc.wr_id == 5 && wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == htobe32(0x01020304));
	CHECK(wc.byte_len == 12 && wc.qp_num == b.qp->qp_num && !strcmp(b.buf + 256, "inline data"), "%s", b.buf + 256);
	free(one);
	free(two);

	// A list of requests of which the third is refused: the first two are posted.
	struct ibv_send_wr chain[4];
	for (int i = 0; i < 4; i++)
		chain[i] = (struct ibv_send_wr){.wr_id = 10 + i, .next = i < 3 ? &chain[i + 1] : NULL, .opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)b.buf, b.mr->rkey}};
	chain[2].num_sge = 100;
	chain[2].sg_list = (struct ibv_sge[100]){{0}};
	FAILS_INT(EINVAL, ibv_post_send(a.qp, chain, &bad));
	CHECK(bad == &chain[2]);
	expect_wc(a.cq, 10, IBV_WC_SUCCESS);
	expect_wc(a.cq, 11, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_poll_cq(a.cq, 1, &wc));
}

static void new_way(void)
{
	const uint64_t all = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
			     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
	struct ibv_qp_ex *x = create_ex(&a, all), *y = create_ex(&b, all);
	CHECK(x && y);
	connect_qps(&a, &x->qp_base, &b, &y->qp_base);
	uint64_t *word = (uint64_t *)(b.buf + 128);
	*word = 1;
	for (int i = 0; i < 3; i++)
		post_recv(&b, &y->qp_base, 100 + i, 1024 + 64 * i, 64);
	char text[8] = "inline1";
	struct ibv_data_buf pieces[3] = {{"a ", 2}, {"", 0}, {"list", 5}};
	strcpy(a.buf, "batch");

	ibv_wr_start(x);
	x->wr_id = 1, x->wr_flags = 0;
	ibv_wr_rdma_write(x, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6);
	x->wr_id = 2, x->wr_flags = 0;
	ibv_wr_send(x);
	ibv_wr_set_inline_data(x, text, sizeof text);
	strcpy(text, "xxxxxxx"); // the data was taken
	x->wr_id = 3;
	ibv_wr_send_imm(x, htobe32(77));
	ibv_wr_set_inline_data_list(x, 3, pieces);
	x->wr_id = 4;
	ibv_wr_rdma_write_imm(x, b.mr->rkey, (uintptr_t)b.buf + 64, htobe32(78));
	struct ibv_sge two[2] = {sge_of(&a, 0, 3), sge_of(&a, 3, 3)};
	ibv_wr_set_sge_list(x, 2, two);
	x->wr_id = 5;
	ibv_wr_atomic_fetch_add(x, b.mr->rkey, (uintptr_t)word, 41);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf + 128, 8);
	x->wr_id = 6;
	ibv_wr_atomic_cmp_swp(x, b.mr->rkey, (uintptr_t)word, 42, 43);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf + 136, 8);
	x->wr_id = 7, x->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_rdma_read(x, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf + 512, 6);
	FAILS_INT(0, ibv_wr_complete(x));
	expect_wc(a.cq, 7, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf, "batch") && !strcmp(b.buf + 64, "batch") && !strcmp(a.buf + 512, "batch"));
	CHECK(*word == 43 && *(uint64_t *)(a.buf + 128) == 1 && *(uint64_t *)(a.buf + 136) == 42);
	struct ibv_wc wc = next_wc(b.cq);
	CHECK(wc.wr_id == 100 && wc.byte_len == 8 && !strcmp(b.buf + 1024, "inline1"));
	wc = next_wc(b.cq);
	CHECK(wc.wr_id == 101 && wc.imm_data == htobe32(77) && wc.byte_len == 7 && !strcmp(b.buf + 1088, "a list"));
	wc = next_wc(b.cq);
	CHECK(wc.wr_id == 102 && wc.imm_data == htobe32(78) && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);

	// Nothing of a batch that was given up, or that has a mistake.
	ibv_wr_start(x);
	x->wr_id = 8;
	ibv_wr_send(x);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6);
	ibv_wr_abort(x);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6);
	char much[4096] = "";
	ibv_wr_send(x);
	ibv_wr_set_inline_data(x, much, sizeof much);
	FAILS_INT(ENOMEM, ibv_wr_complete(x));
	ibv_wr_start(x);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6); // of no request
	FAILS_INT(EINVAL, ibv_wr_complete(x));
	ibv_wr_start(x);
	FAILS_INT(0, ibv_wr_complete(x));
	FAILS_INT(0, ibv_poll_cq(a.cq, 1, &wc));

	// A window of type 2, whose key the peer takes back.
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	CHECK(mw);
	struct ibv_mw_bind_info info = {.mr = b.mr, .addr = (uintptr_t)b.buf + 2048, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	uint32_t key = ibv_inc_rkey(mw->rkey);
	ibv_wr_start(y);
	y->wr_id = 20, y->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(y, mw, key, &info);
	FAILS_INT(0, ibv_wr_complete(y));
	wc = next_wc(b.cq);
	CHECK(wc.wr_id == 20 && wc.opcode == IBV_WC_BIND_MW && wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	post_recv(&b, &y->qp_base, 21, 0, 64);
	ibv_wr_start(x);
	x->wr_id = 22, x->wr_flags = 0;
	ibv_wr_rdma_write(x, key, (uintptr_t)b.buf + 2048);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6);
	x->wr_id = 23, x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(x, key);
	ibv_wr_set_sge(x, a.mr->lkey, (uintptr_t)a.buf, 6);
	FAILS_INT(0, ibv_wr_complete(x));
	expect_wc(a.cq, 23, IBV_WC_SUCCESS);
	wc = next_wc(b.cq);
	CHECK(wc.wr_id == 21 && wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key);
	CHECK(!strcmp(b.buf + 2048, "batch"));
	FAILS_INT(0, ibv_dealloc_mw(mw));
	FAILS_INT(0, ibv_destroy_qp(&x->qp_base));
	FAILS_INT(0, ibv_destroy_qp(&y->qp_base));
}

// A window of type 1, which a call binds, and which completes as a request does.
static void old_window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	CHECK(mw);
	struct ibv_mw_bind bind = {.wr_id = 70, .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {b.mr, (uintptr_t)b.buf + 1024, 64, IBV_ACCESS_REMOTE_WRITE}};
	uint32_t key = mw->rkey;
	for (int i = 0; i < 100; i++) {
		FAILS_INT(0, ibv_bind_mw(b.qp, mw, &bind));
		struct ibv_wc wc = next_wc(b.cq);
		CHECK(wc.wr_id == 70 && wc.opcode == IBV_WC_BIND_MW && wc.status == IBV_WC_SUCCESS);
	}
	CHECK(mw->rkey != key);
	strcpy(a.buf, "window");
	post_rdma(&a, IBV_WR_RDMA_WRITE, 71, 0, 7, (uintptr_t)b.buf + 1024, mw->rkey);
	expect_wc(a.cq, 71, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 1024, "window"));
	FAILS_INT(EBUSY, ibv_dealloc_pd(b.pd));
	bind.bind_info.length = b.size + 1;
	FAILS_INT(EINVAL, ibv_bind_mw(b.qp, mw, &bind));
	bind.bind_info = (struct ibv_mw_bind_info){0}; // of nothing: it ends what the peer may do
	FAILS_INT(0, ibv_bind_mw(b.qp, mw, &bind));
	expect_wc(b.cq, 70, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_dealloc_mw(mw));
}

// What headers of rdma-core 45 and later call: FLUSH.
static void flush(void)
{
	struct newer {
		struct ibv_qp_ex x;
		void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
	};
	const unsigned int flush_global = 1 << 8;
	struct ibv_qp_ex *x = create_ex(&a, 1 << 11), *y = create_ex(&b, 0);
	connect_qps(&a, &x->qp_base, &b, &y->qp_base);
	CHECK(!ibv_modify_qp(&y->qp_base, &(struct ibv_qp_attr){.qp_access_flags = ALL_ACCESS | flush_global}, IBV_QP_ACCESS_FLAGS));
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf, 64, ALL_ACCESS | flush_global);
	CHECK(mr);
	ibv_wr_start(x);
	x->wr_id = 80, x->wr_flags = IBV_SEND_SIGNALED;
	((struct newer *)x)->wr_flush(x, mr->rkey, (uintptr_t)b.buf, 64, 1, 0);
	FAILS_INT(0, ibv_wr_complete(x));
	struct ibv_wc wc = next_wc(a.cq);
	CHECK(wc.wr_id == 80 && wc.status == IBV_WC_SUCCESS && wc.opcode == 8, "%s", ibv_wc_status_str(wc.status));
	FAILS_INT(0, ibv_destroy_qp(&x->qp_base));
	FAILS_INT(0, ibv_destroy_qp(&y->qp_base));
	FAILS_INT(0, ibv_dereg_mr(mr));
}

static void extended_queue(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS, .cq_context = &init};
	struct ibv_cq_ex *x = ibv_create_cq_ex(b.ctx, &init);
	CHECK(x && x->cq_context == &init);
	struct ibv_cq *plain = b.cq;
	struct ibv_qp *was = b.qp, *wasa = a.qp;
	b.cq = ibv_cq_ex_to_cq(x);
	b.qp = end_qp(&b, IBV_QPT_RC, NULL);
	a.qp = end_qp(&a, IBV_QPT_RC, NULL);
	connect_qps(&a, a.qp, &b, b.qp);
	struct ibv_poll_cq_attr attr = {};
	FAILS_INT(ENOENT, ibv_start_poll(x, &attr));
	FAILS_INT(EINVAL, ibv_start_poll(x, &(struct ibv_poll_cq_attr){.comp_mask = 1}));
	for (int i = 0; i < 3; i++) {
		post_recv(&b, b.qp, 50 + i, 0, 64);
		post_send(&a, 60 + i, 0, 10 + i);
		expect_wc(a.cq, 60 + i, IBV_WC_SUCCESS);
	}
	int e;
	while ((e = ibv_start_poll(x, &attr)) == ENOENT)
		;
	for (int i = 0; i < 3; i++) {
		CHECK(!e, "is %d", e);
		CHECK(x->wr_id == 50 + (uint64_t)i && x->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(x) == IBV_WC_RECV);
		CHECK(ibv_wc_read_byte_len(x) == 10 + (uint32_t)i && ibv_wc_read_qp_num(x) == b.qp->qp_num && !ibv_wc_read_wc_flags(x));
		e = ibv_next_poll(x);
	}
	CHECK(e == ENOENT);
	ibv_end_poll(x);
	FAILS_INT(ENOENT, ibv_start_poll(x, &attr));
	FAILS_INT(0, ibv_destroy_qp(a.qp));
	FAILS_INT(0, ibv_destroy_qp(b.qp));
	FAILS_INT(0, ibv_destroy_cq(b.cq));
	a.qp = wasa, b.qp = was, b.cq = plain;
	init.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	FAILS(EOPNOTSUPP, ibv_create_cq_ex(b.ctx, &init));
}

static void resized(void)
{
	for (int i = 0; i < 8; i++) {
		post_recv(&b, b.qp, 200 + i, 0, 64);
		post_send(&a, 300 + i, 0, 8);
		expect_wc(a.cq, 300 + i, IBV_WC_SUCCESS);
	}
	FAILS_INT(0, ibv_resize_cq(b.cq, 2000));
	CHECK(b.cq->cqe >= 2000);
	for (int i = 0; i < 8; i++)
		expect_wc(b.cq, 200 + i, IBV_WC_SUCCESS);
	FAILS_INT(EINVAL, ibv_resize_cq(b.cq, 0));
}

static void shared_queue(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(b.pd, &init);
	CHECK(srq && init.attr.max_wr >= 16 && init.attr.max_sge >= 2);
	struct ibv_qp *was = b.qp, *wasa = a.qp;
	b.qp = end_qp(&b, IBV_QPT_RC, srq);
	a.qp = end_qp(&a, IBV_QPT_RC, NULL);
	connect_qps(&a, a.qp, &b, b.qp);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge s = sge_of(&b, 64 * (size_t)i, 64);
		struct ibv_recv_wr wr = {.wr_id = 400 + i, .sg_list = &s, .num_sge = 1}, *bad;
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	}
	FAILS_INT(0, ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 4}, IBV_SRQ_LIMIT));
	struct ibv_srq_attr q;
	FAILS_INT(0, ibv_query_srq(srq, &q));
	CHECK(q.srq_limit == 4 && q.max_wr >= 16);
	post_send(&a, 1, 0, 8);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	expect_wc(b.cq, 400, IBV_WC_SUCCESS);
	struct ibv_async_event ae;
	FAILS_INT(0, ibv_get_async_event(b.ctx, &ae));
	CHECK(ae.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && ae.element.srq == srq);
	ibv_ack_async_event(&ae);
	FAILS_INT(EBUSY, ibv_destroy_srq(srq));
	FAILS_INT(0, ibv_destroy_qp(b.qp));
	FAILS_INT(0, ibv_destroy_qp(a.qp));
	FAILS_INT(0, ibv_destroy_srq(srq));
	a.qp = wasa, b.qp = was;
}

static void datagrams(void)
{
	struct end c, d;
	pair_open(&c, &d, IBV_QPT_UD, 4096);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = d.gid, .hop_limit = 9, .flow_label = 0xffffffff}};
	struct ibv_ah *ah = ibv_create_ah(c.pd, &attr);
	CHECK(ah);
	post_recv(&d, d.qp, 1, 0, 1024);
	strcpy(c.buf, "ping");
	struct ibv_sge s = sge_of(&c, 0, 5);
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, d.qp->qp_num | 0xAB000000, 0x11}}, *bad; // a QPN has 24 bits, and the rest goes nowhere
	CHECK(!ibv_post_send(c.qp, &wr, &bad));
	expect_wc(c.cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = next_wc(d.cq);
	CHECK(wc.byte_len == 45 && wc.wc_flags & IBV_WC_GRH && wc.src_qp == c.qp->qp_num && !strcmp(d.buf + 40, "ping"));
	CHECK((wc.sl & 8) && (wc.sl & 7) == 2, "UCX reads there that it was IPv4");
	// The answer goes where it came from.
	struct ibv_ah *back = ibv_create_ah_from_wc(d.pd, &wc, (struct ibv_grh *)d.buf, 1);
	CHECK(back);
	post_recv(&c, c.qp, 3, 0, 1024);
	strcpy(d.buf + 2048, "pong");
	s = sge_of(&d, 2048, 5);
	wr = (struct ibv_send_wr){.wr_id = 4, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = {back, wc.src_qp, 0x11}};
	CHECK(!ibv_post_send(d.qp, &wr, &bad));
	expect_wc(d.cq, 4, IBV_WC_SUCCESS);
	wc = next_wc(c.cq);
	CHECK(wc.wr_id == 3 && !strcmp(c.buf + 40, "pong"));
	FAILS_INT(0, ibv_destroy_ah(ah));
	FAILS_INT(0, ibv_destroy_ah(back));
	end_close(&c);
	end_close(&d);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	old_way();
	new_way();
	old_window();
	flush();
	extended_queue();
	resized();
	shared_queue();
	datagrams();
	end_close(&a);
	end_close(&b);
	return 0;
}
