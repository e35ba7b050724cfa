// Posting work requests: the Go half is entered once a call. What it will read of them is read here before, but for
// registered memory: a pointer of the program's that leads nowhere then faults in the program's own call, with a SIGSEGV that it
// may handle. In Go's code it would be the end, with a trace of goroutines.
#include "shim.h"

static inline void touch(const void *p, size_t n)
{
	const size_t page = 4096;
	const volatile char *c = p;
	if (!n)
		return;
	for (size_t i = 0; i < n; i += page)
		(void)c[i];
	(void)c[n - 1];
}

// listed reports whether a request has a list. One of more elements than the queue takes is refused without a look.
static inline bool listed(const struct ibv_sge *list, int n, uint32_t max) { return list && n > 0 && (uint32_t)n <= max; }

static inline void touch_list(const struct ibv_sge *list, int n, uint32_t max)
{
	if (listed(list, n, max))
		touch(list, (size_t)n * sizeof *list);
}

// touch_inline leaves out what is too long, which is refused without a look.
static void touch_inline(const struct shim_qp *q, const struct ibv_send_wr *wr)
{
	uint64_t n = 0;
	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	if (n > q->init.cap.max_inline_data)
		return;
	for (int i = 0; i < wr->num_sge; i++)
		touch((const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
}

// The Go half reads no more of a list than a queue takes and what it translates at once: a list may be a ring.
static void touch_sends(const struct shim_qp *q, const struct ibv_send_wr *wr)
{
	const uint32_t max = q->init.cap.max_send_sge;
	for (uint64_t left = (uint64_t)q->init.cap.max_send_wr + GOROCE_SEND_SLOTS; wr && left; left--, wr = wr->next) {
		touch_list(wr->sg_list, wr->num_sge, max);
		if (wr->send_flags & IBV_SEND_INLINE && listed(wr->sg_list, wr->num_sge, max))
			touch_inline(q, wr);
		if (q->qp.qp_type == IBV_QPT_UD && wr->wr.ud.ah)
			touch(wr->wr.ud.ah, sizeof *wr->wr.ud.ah);
		if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw && wr->bind_mw.bind_info.mr) {
			touch(wr->bind_mw.mw, sizeof *wr->bind_mw.mw);
			touch(wr->bind_mw.bind_info.mr, sizeof *wr->bind_mw.bind_info.mr);
		}
	}
}

static void touch_recvs(const struct ibv_recv_wr *wr, uint32_t depth, uint32_t max)
{
	for (uint64_t left = (uint64_t)depth + 1; wr && left; left--, wr = wr->next)
		touch_list(wr->sg_list, wr->num_sge, max);
}

int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shim_qp *q = to_qp(qp);
	if (shim_stage(q, wr))
		return 0;
	shim_meet();
	touch_sends(q, wr);
	shim_send_lock(q);
	shim_stage_direct(q, wr);
	int e = CORE(post_send, q->handle, wr, bad);
	shim_send_unlock(q);
	return UNLIKELY(e && !q->handle) ? ENODEV : e; // it had a peer before a fork
}

int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	shim_meet();
	touch_recvs(wr, to_qp(qp)->init.cap.max_recv_wr, to_qp(qp)->init.cap.max_recv_sge);
	int e = CORE(post_recv, to_qp(qp)->handle, wr, bad);
	return UNLIKELY(e && !to_qp(qp)->handle) ? ENODEV : e;
}

int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	shim_meet();
	touch_recvs(wr, to_srq(srq)->attr.max_wr, to_srq(srq)->max_sge);
	return CORE(post_srq_recv, to_srq(srq)->handle, wr, bad);
}
