// The ibv_wr_* functions: what is built between wr_start and wr_complete is posted in one call of the Go half.
#include "shim.h"

#include <endian.h>
#include <pthread.h>

// shim_batch is the requests since wr_start. Their lists and inline data are in memory that grows, and so are
// offsets until wr_complete.
struct shim_batch {
	pthread_mutex_t mutex; // from wr_start to wr_complete or wr_abort, as providers do
	int error;	       // the first; wr_complete returns it
	struct ibv_send_wr *wrs;
	size_t n, wrs_room;
	struct ibv_sge *sges;
	size_t sges_n, sges_room;
	uint8_t *data;
	size_t data_n, data_room;
};

// grow makes room for more elements; false if there is no memory.
static bool grow(void **memory, size_t *room, size_t want, size_t size)
{
	if (want <= *room)
		return true;
	size_t n = *room ? *room : 16;
	while (n < want)
		n *= 2;
	void *m = reallocarray(*memory, n, size);
	if (!m)
		return false;
	*memory = m;
	*room = n;
	return true;
}

static struct shim_batch *of(struct ibv_qp_ex *x) { return to_qp(&x->qp_base)->batch; }

static void fail(struct shim_batch *b, int error)
{
	if (!b->error)
		b->error = error;
}

// scrap is where requests go that cannot be kept.
static __thread struct ibv_send_wr scrap;

static struct ibv_send_wr *add(struct ibv_qp_ex *x, enum ibv_wr_opcode op)
{
	struct shim_batch *b = of(x);
	if (b->error || !grow((void **)&b->wrs, &b->wrs_room, b->n + 1, sizeof *b->wrs)) {
		fail(b, ENOMEM);
		return &scrap;
	}
	struct ibv_send_wr *w = &b->wrs[b->n++];
	memset(w, 0, sizeof *w);
	w->wr_id = x->wr_id;
	w->send_flags = x->wr_flags & ~(unsigned int)IBV_SEND_INLINE; // the setters of data say it
	w->opcode = op;
	return w;
}

static struct ibv_send_wr *last(struct ibv_qp_ex *x)
{
	struct shim_batch *b = of(x);
	if (b->error)
		return &scrap;
	if (!b->n) {
		fail(b, EINVAL);
		return &scrap;
	}
	return &b->wrs[b->n - 1];
}

static void wr_start(struct ibv_qp_ex *x)
{
	struct shim_batch *b = of(x);
	pthread_mutex_lock(&b->mutex);
	b->error = 0;
	b->n = b->sges_n = b->data_n = 0;
}

static void wr_abort(struct ibv_qp_ex *x) { pthread_mutex_unlock(&of(x)->mutex); }

static int wr_complete(struct ibv_qp_ex *x)
{
	struct shim_batch *b = of(x);
	int e = b->error;
	if (!e && b->n) {
		struct ibv_sge *list = b->sges;
		for (size_t i = 0; i < b->n; i++) {
			struct ibv_send_wr *w = &b->wrs[i];
			w->next = i + 1 < b->n ? w + 1 : NULL;
			w->sg_list = list;
			list += w->num_sge;
			if (w->send_flags & IBV_SEND_INLINE)
				w->sg_list->addr += (uintptr_t)b->data;
		}
		struct ibv_send_wr *bad;
		struct ibv_qp *qp = &x->qp_base;
		e = qp->context->ops.post_send(qp, b->wrs, &bad);
	}
	pthread_mutex_unlock(&b->mutex);
	return e;
}

static void rdma(struct ibv_send_wr *w, uint32_t rkey, uint64_t addr)
{
	w->wr.rdma.rkey = rkey;
	w->wr.rdma.remote_addr = addr;
}

static void wr_send(struct ibv_qp_ex *x) { add(x, IBV_WR_SEND); }
static void wr_send_imm(struct ibv_qp_ex *x, __be32 imm) { add(x, IBV_WR_SEND_WITH_IMM)->imm_data = imm; }
static void wr_send_inv(struct ibv_qp_ex *x, uint32_t rkey) { add(x, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey; }
static void wr_local_inv(struct ibv_qp_ex *x, uint32_t rkey) { add(x, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey; }
static void wr_rdma_write(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr) { rdma(add(x, IBV_WR_RDMA_WRITE), rkey, addr); }
static void wr_rdma_read(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr) { rdma(add(x, IBV_WR_RDMA_READ), rkey, addr); }

static void wr_rdma_write_imm(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ibv_send_wr *w = add(x, IBV_WR_RDMA_WRITE_WITH_IMM);
	rdma(w, rkey, addr);
	w->imm_data = imm;
}

static void atomic(struct ibv_send_wr *w, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	w->wr.atomic.rkey = rkey;
	w->wr.atomic.remote_addr = addr;
	w->wr.atomic.compare_add = compare_add;
	w->wr.atomic.swap = swap;
}

static void wr_cmp_swp(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(add(x, IBV_WR_ATOMIC_CMP_AND_SWP), rkey, addr, compare, swap);
}

static void wr_fetch_add(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, uint64_t n)
{
	atomic(add(x, IBV_WR_ATOMIC_FETCH_AND_ADD), rkey, addr, n, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *x, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *w = add(x, IBV_WR_BIND_MW);
	w->bind_mw.mw = mw;
	w->bind_mw.rkey = rkey;
	w->bind_mw.bind_info = *info;
}

static void wr_send_tso(struct ibv_qp_ex *x, void *header, uint16_t size, uint16_t mss)
{
	(void)header, (void)size, (void)mss;
	fail(of(x), EOPNOTSUPP);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *x, uint32_t srqn)
{
	(void)srqn;
	fail(of(x), EOPNOTSUPP);
}

static void wr_set_ud_addr(struct ibv_qp_ex *x, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *w = last(x);
	w->wr.ud.ah = ah;
	w->wr.ud.remote_qpn = qpn;
	w->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *x, size_t n, const struct ibv_sge *list)
{
	struct shim_batch *b = of(x);
	struct ibv_send_wr *w = last(x);
	if (b->error)
		return;
	if (w->num_sge || n > INT16_MAX) {
		fail(b, EINVAL);
		return;
	}
	if (!grow((void **)&b->sges, &b->sges_room, b->sges_n + n, sizeof *b->sges)) {
		fail(b, ENOMEM);
		return;
	}
	if (n)
		memcpy(&b->sges[b->sges_n], list, n * sizeof *list);
	b->sges_n += n;
	w->num_sge = (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *x, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_set_sge_list(x, 1, &(struct ibv_sge){.addr = addr, .length = length, .lkey = lkey});
}

static void wr_set_inline_data_list(struct ibv_qp_ex *x, size_t n, const struct ibv_data_buf *list)
{
	struct shim_batch *b = of(x);
	size_t total = 0, most = to_qp(&x->qp_base)->init.cap.max_inline_data;
	for (size_t i = 0; i < n; i++)
		if (total += list[i].length, total > most) {
			fail(b, ENOMEM); // as rdma-core's rxe provider answers
			return;
		}
	if (b->error)
		return;
	if (!grow((void **)&b->data, &b->data_room, b->data_n + total, 1)) {
		fail(b, ENOMEM);
		return;
	}
	// The data is taken now: the program may change it before wr_complete.
	size_t from = b->data_n;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length)
			memcpy(b->data + b->data_n, list[i].addr, list[i].length);
		b->data_n += list[i].length;
	}
	wr_set_sge(x, 0, from, (uint32_t)total);
	last(x)->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *x, void *addr, size_t length)
{
	wr_set_inline_data_list(x, 1, &(struct ibv_data_buf){.addr = addr, .length = length});
}

static void wr_atomic_write(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, const void *value)
{
	rdma(add(x, (enum ibv_wr_opcode)15), rkey, addr); // IBV_WR_ATOMIC_WRITE
	wr_set_inline_data(x, (void *)(uintptr_t)value, 8);
}

#define WITH_FLUSH (1 << 11) // IBV_QP_EX_WITH_FLUSH

// There is no such request for ibv_post_send: how much and what of it is where an atomic has its operands.
static void wr_flush(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, size_t n, uint8_t type, uint8_t level)
{
	if (n > UINT32_MAX) {
		fail(of(x), EINVAL);
		return;
	}
	atomic(add(x, (enum ibv_wr_opcode)14), rkey, addr, n, (uint64_t)level << 8 | type); // IBV_WR_FLUSH
}

// The operations that a queue pair of a type can have.
static uint64_t ops_of(enum ibv_qp_type type)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
			    IBV_QP_EX_WITH_BIND_MW;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE |
			    WITH_FLUSH;
	switch (type) {
	case IBV_QPT_RC:
		return rc;
	case IBV_QPT_UC:
		return uc;
	case IBV_QPT_UD:
		return ud;
	default:
		return 0;
	}
}

int shim_batch_init(struct shim_qp *q, uint64_t ops)
{
	if (ops & ~ops_of(q->qp.qp_type))
		return EOPNOTSUPP;
	q->batch = calloc(1, sizeof *q->batch);
	if (!q->batch)
		return ENOMEM;
	pthread_mutex_init(&q->batch->mutex, NULL);
	struct ibv_qp_ex *x = &q->ex;
	x->wr_start = wr_start;
	x->wr_complete = wr_complete;
	x->wr_abort = wr_abort;
	x->wr_atomic_cmp_swp = wr_cmp_swp;
	x->wr_atomic_fetch_add = wr_fetch_add;
	x->wr_atomic_write = wr_atomic_write;
	q->wr_flush = wr_flush;
	x->wr_bind_mw = wr_bind_mw;
	x->wr_local_inv = wr_local_inv;
	x->wr_rdma_read = wr_rdma_read;
	x->wr_rdma_write = wr_rdma_write;
	x->wr_rdma_write_imm = wr_rdma_write_imm;
	x->wr_send = wr_send;
	x->wr_send_imm = wr_send_imm;
	x->wr_send_inv = wr_send_inv;
	x->wr_send_tso = wr_send_tso;
	x->wr_set_ud_addr = wr_set_ud_addr;
	x->wr_set_xrc_srqn = wr_set_xrc_srqn;
	x->wr_set_inline_data = wr_set_inline_data;
	x->wr_set_inline_data_list = wr_set_inline_data_list;
	x->wr_set_sge = wr_set_sge;
	x->wr_set_sge_list = wr_set_sge_list;
	return 0;
}

void shim_batch_free(struct shim_qp *q)
{
	struct shim_batch *b = q->batch;
	if (!b)
		return;
	pthread_mutex_destroy(&b->mutex);
	free(b->wrs);
	free(b->sges);
	free(b->data);
	free(b);
	q->batch = NULL;
}
