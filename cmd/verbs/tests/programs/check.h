/* What the test programs share. Each is run with two devices, goroce0 and goroce1, on loopback addresses. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <infiniband/verbs.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

/* CHECK ends the program when something is not as it has to be. */
#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #cond); \
			fprintf(stderr, " (errno %d %s)", errno, strerrorname_np(errno) ? strerrorname_np(errno) : "none"); \
			fprintf(stderr, " " __VA_ARGS__); \
			fprintf(stderr, "\n"); \
			_exit(1); \
		} \
	} while (0)

/* FAILS checks that a call that returns a pointer fails with an errno, and FAILS_INT one that returns the errno. */
#define FAILS(want, call) \
	do { \
		errno = 0; \
		CHECK((call) == NULL); \
		CHECK(errno == (want), "instead of %s", strerrorname_np(want)); \
	} while (0)
#define FAILS_INT(want, call) \
	do { \
		int got_ = (call); \
		CHECK(got_ == (want), "is %d %s", got_, got_ > 0 && strerrorname_np(got_) ? strerrorname_np(got_) : ""); \
	} while (0)

#define ALL_ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* An end is what one side of a connection has. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
	size_t size;
	union ibv_gid gid;
};

static inline struct ibv_context *open_device(int index)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n > index, "%d devices", n);
	struct ibv_context *c = ibv_open_device(list[index]);
	CHECK(c);
	ibv_free_device_list(list);
	return c;
}

static inline void end_open(struct end *e, int device, size_t size)
{
	memset(e, 0, sizeof *e);
	e->ctx = open_device(device);
	CHECK(e->pd = ibv_alloc_pd(e->ctx));
	CHECK(e->channel = ibv_create_comp_channel(e->ctx));
	CHECK(e->cq = ibv_create_cq(e->ctx, 256, e, e->channel, 0));
	CHECK(!posix_memalign((void **)&e->buf, 4096, size));
	memset(e->buf, 0, size);
	e->size = size;
	CHECK(e->mr = ibv_reg_mr(e->pd, e->buf, size, ALL_ACCESS));
	CHECK(!ibv_query_gid(e->ctx, 1, 0, &e->gid));
}

static inline struct ibv_qp *end_qp(struct end *e, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->cq, .recv_cq = e->cq, .srq = srq, .qp_type = type,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);
	CHECK(qp);
	return qp;
}

static inline void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_MW_BIND, .qkey = 0x11};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
}

/* to_rts_with has the ACK timeout, of which 0 is none. */
static inline void to_rts_with(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid, uint8_t timeout)
{
	bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr r = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 1,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
	};
	int mask = IBV_QP_STATE;
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK(!ibv_modify_qp(qp, &r, mask));
	struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 1, .max_rd_atomic = 4};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(!ibv_modify_qp(qp, &s, mask));
}

static inline void to_rts(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid) { to_rts_with(qp, peer, gid, 14); }

static inline void connect_qps(struct end *a, struct ibv_qp *qa, struct end *b, struct ibv_qp *qb)
{
	to_init(qa);
	to_init(qb);
	to_rts(qa, qb->qp_num, b->gid);
	to_rts(qb, qa->qp_num, a->gid);
}

/* pair_open makes two ends that are connected. */
static inline void pair_open(struct end *a, struct end *b, enum ibv_qp_type type, size_t size)
{
	end_open(a, 0, size);
	end_open(b, 1, size);
	a->qp = end_qp(a, type, NULL);
	b->qp = end_qp(b, type, NULL);
	connect_qps(a, a->qp, b, b->qp);
}

/* take_away unmaps memory, and keeps its place: other threads map their stacks and heaps at any time, and what a peer
 * writes would go there. */
static inline void take_away(void *memory, size_t size)
{
	CHECK(mmap(memory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == memory);
}

/* next_wc polls until there is a completion. Who waits too long is ended by the test that has started it. */
static inline struct ibv_wc next_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

static inline void expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc(cq);
	CHECK(wc.wr_id == id, "is %lu", (unsigned long)wc.wr_id);
	CHECK(wc.status == status, "is %s", ibv_wc_status_str(wc.status));
}

static inline struct ibv_sge sge_of(struct end *e, size_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
}

static inline void post_recv(struct end *e, struct ibv_qp *qp, uint64_t id, size_t offset, uint32_t length)
{
	struct ibv_sge s = sge_of(e, offset, length);
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static inline void post_rdma(struct end *e, enum ibv_wr_opcode op, uint64_t id, size_t offset, uint32_t length, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge s = sge_of(e, offset, length);
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {addr, rkey}}, *bad;
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
}

static inline void post_send(struct end *e, uint64_t id, size_t offset, uint32_t length)
{
	post_rdma(e, IBV_WR_SEND, id, offset, length, 0, 0);
}

static inline void end_close(struct end *e)
{
	if (e->qp)
		FAILS_INT(0, ibv_destroy_qp(e->qp));
	FAILS_INT(0, ibv_dereg_mr(e->mr));
	FAILS_INT(0, ibv_destroy_cq(e->cq));
	FAILS_INT(0, ibv_destroy_comp_channel(e->channel));
	FAILS_INT(0, ibv_dealloc_pd(e->pd));
	FAILS_INT(0, ibv_close_device(e->ctx));
	free(e->buf);
}

#endif
