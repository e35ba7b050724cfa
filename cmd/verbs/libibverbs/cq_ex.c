// Extended completion queues: one completion at a time, whose fields are read by functions.
#include "shim.h"

#include <pthread.h>
#include <time.h>

// A start_poll that finds something holds the lock until end_poll, as providers do.
static int next(struct ibv_cq_ex *x)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	int n = x->context->ops.poll_cq(&q->cq, 1, &q->wc);
	if (n <= 0)
		return n ? EIO : ENOENT;
	x->wr_id = q->wc.wr_id;
	x->status = q->wc.status;
	if (q->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		q->wallclock_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	}
	return 0;
}

static int start_poll(struct ibv_cq_ex *x, struct ibv_poll_cq_attr *a)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	if (a && a->comp_mask)
		return EINVAL;
	if (!q->single_threaded)
		pthread_mutex_lock(&q->poll_lock);
	int e = next(x);
	if (e && !q->single_threaded)
		pthread_mutex_unlock(&q->poll_lock);
	return e;
}

static void end_poll(struct ibv_cq_ex *x)
{
	struct shim_cq *q = to_cq((struct ibv_cq *)x);
	if (!q->single_threaded)
		pthread_mutex_unlock(&q->poll_lock);
}

#define READ(type, name, field) \
	static type read_##name(struct ibv_cq_ex *x) { return to_cq((struct ibv_cq *)x)->field; }
READ(enum ibv_wc_opcode, opcode, wc.opcode)
READ(uint32_t, vendor_err, wc.vendor_err)
READ(uint32_t, byte_len, wc.byte_len)
READ(__be32, imm_data, wc.imm_data)
READ(uint32_t, qp_num, wc.qp_num)
READ(uint32_t, src_qp, wc.src_qp)
READ(unsigned int, wc_flags, wc.wc_flags)
READ(uint32_t, slid, wc.slid)
READ(uint8_t, sl, wc.sl)
READ(uint8_t, dlid_path_bits, wc.dlid_path_bits)
READ(uint64_t, wallclock, wallclock_ns)

#define SUPPORTED (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;
	if (a->comp_mask & ~known || a->wc_flags & ~(uint64_t)SUPPORTED ||
	    flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED || a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		return null_errno(EOPNOTSUPP);
	if (!a->cqe || a->cqe > INT32_MAX || a->comp_vector > INT32_MAX)
		return null_errno(EINVAL);
	struct shim_cq *q = shim_create_cq(c, (int)a->cqe, a->cq_context, a->channel, (int)a->comp_vector);
	if (!q)
		return NULL;
	q->wc_flags = a->wc_flags;
	q->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	struct ibv_cq_ex *x = &q->ex;
	x->start_poll = start_poll;
	x->next_poll = next;
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
	if (a->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		x->read_completion_wallclock_ns = read_wallclock;
	return x;
}
