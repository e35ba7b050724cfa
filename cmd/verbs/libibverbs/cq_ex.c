// Extended completion queues: one completion at a time, whose fields are read by functions.
#include "shim.h"

// find makes the next completion that is read the one that counts.
static int find(struct shim_cq *q)
{
	struct goroce_ring *r = q->ring;
	if (__atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == q->head)
		return ENOENT;
	q->wc = &r->slots[q->head & r->mask].wc;
	q->ex.wr_id = q->wc->wr_id;
	q->ex.status = q->wc->status;
	return 0;
}

// start_poll, if it finds something, holds the lock until end_poll, as providers do.
static int start_poll(struct ibv_cq_ex *x, struct ibv_poll_cq_attr *a)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	if (UNLIKELY(shim_foreign(q->cq.context)))
		return EIO;
	if (a && a->comp_mask)
		return EINVAL;
	shim_cq_lock(q);
	q->head = q->ring->head;
	int e = find(q);
	if (!e)
		return goroce_left(0); // handlers of signals run while the program has it
	bool over = shim_cq_over(q);
	shim_cq_unlock(q);
	return shim_cq_idle(q, over) ? EIO : e;
}

static int next_poll(struct ibv_cq_ex *x)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	q->head++;
	int e = find(q);
	if (e)
		q->head--; // end_poll takes the last one
	return e;
}

static void end_poll(struct ibv_cq_ex *x)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	goroce_busy++;
	__atomic_store_n(&q->ring->head, q->head + 1, __ATOMIC_RELEASE);
	q->looks = 0;
	shim_cq_unlock(q);
}

#define READ(type, field) \
	static type read_##field(struct ibv_cq_ex *x) { return to_cq((struct ibv_cq *)x)->wc->field; }
READ(enum ibv_wc_opcode, opcode)
READ(uint32_t, vendor_err)
READ(uint32_t, byte_len)
READ(__be32, imm_data)
READ(uint32_t, qp_num)
READ(uint32_t, src_qp)
READ(unsigned int, wc_flags)
READ(uint32_t, slid)
READ(uint8_t, sl)
READ(uint8_t, dlid_path_bits)

struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;
	if (a->comp_mask & ~known || a->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS ||
	    flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED || a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		return null_errno(EOPNOTSUPP);
	if (!a->cqe || a->cqe > INT32_MAX || a->comp_vector > INT32_MAX)
		return null_errno(EINVAL);
	struct shim_cq *q = shim_create_cq(c, (int)a->cqe, a->cq_context, a->channel, (int)a->comp_vector);
	if (!q)
		return NULL;
	q->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	struct ibv_cq_ex *x = &q->ex;
	x->start_poll = start_poll;
	x->next_poll = next_poll;
	x->end_poll = end_poll;
	x->read_opcode = read_opcode;
	x->read_vendor_err = read_vendor_err;
	x->read_wc_flags = read_wc_flags;
	if (a->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		x->read_byte_len = read_byte_len;
	if (a->wc_flags & IBV_WC_EX_WITH_IMM)
		x->read_imm_data = read_imm_data;
	if (a->wc_flags & IBV_WC_EX_WITH_QP_NUM)
		x->read_qp_num = read_qp_num;
	if (a->wc_flags & IBV_WC_EX_WITH_SRC_QP)
		x->read_src_qp = read_src_qp;
	if (a->wc_flags & IBV_WC_EX_WITH_SLID)
		x->read_slid = read_slid;
	if (a->wc_flags & IBV_WC_EX_WITH_SL)
		x->read_sl = read_sl;
	if (a->wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		x->read_dlid_path_bits = read_dlid_path_bits;
	return x;
}
