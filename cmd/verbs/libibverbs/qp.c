// Queue pairs.
#include "shim.h"

unsigned int shim_qps;

#include <pthread.h>

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *a, uint64_t send_ops, bool extended)
{
	if (!pd)
		return null_errno(EINVAL);
	ENTER_NULL(pd->context);
	if (a->qp_type == IBV_QPT_RAW_PACKET || a->qp_type == IBV_QPT_XRC_SEND || a->qp_type == IBV_QPT_XRC_RECV ||
	    a->qp_type == IBV_QPT_DRIVER)
		return null_errno(EOPNOTSUPP);
	if (!a->send_cq || !a->recv_cq)
		return null_errno(EINVAL);
	struct shim_qp *q = calloc(1, sizeof *q);
	if (!q)
		return null_errno(ENOMEM);
	struct ibv_qp *qp = &q->qp;
	qp->context = pd->context;
	qp->qp_context = a->qp_context;
	qp->pd = pd;
	qp->send_cq = a->send_cq;
	qp->recv_cq = a->recv_cq;
	qp->srq = a->srq;
	qp->qp_type = a->qp_type;
	qp->state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->mutex, NULL);
	pthread_cond_init(&qp->cond, NULL);
	int e = extended ? shim_batch_init(q, send_ops) : 0;
	shim_stage_init(q);
	struct goroce_qp g = {
		.pd = pd->handle, .send_cq = to_cq(a->send_cq)->handle, .recv_cq = to_cq(a->recv_cq)->handle,
		.srq = a->srq ? to_srq(a->srq)->handle : 0, .type = a->qp_type, .sig_all = !!a->sq_sig_all,
		.cap = a->cap, .cookie = (uintptr_t)q, .send_ring = q->ring,
	};
	if (!e)
		e = CORE(create_qp, &g);
	if (e) {
		shim_batch_free(q);
		free(q->ring);
		free(q);
		return null_errno(e);
	}
	__atomic_add_fetch(&shim_qps, 1, __ATOMIC_RELAXED);
	qp->handle = q->handle = g.handle;
	qp->qp_num = g.qp_num;
	a->cap = g.cap;
	q->init = *a;
	shim_keep(SHIM_QP, &q->link);
	return qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a) { return create(pd, a, 0, false); }

struct ibv_qp *shim_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	(void)c;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (a->comp_mask & ~known)
		return null_errno(EOPNOTSUPP);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD))
		return null_errno(EINVAL);
	if (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags)
		return null_errno(EOPNOTSUPP);
	bool extended = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	// The first fields are those of ibv_qp_init_attr.
	return create(a->pd, (struct ibv_qp_init_attr *)a, extended ? a->send_ops_flags : 0, extended);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return to_qp(qp)->batch ? &to_qp(qp)->ex : NULL; }

// note keeps what heir.c needs.
static void note(struct shim_qp *q, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_STATE && a->qp_state == IBV_QPS_RESET)
		q->attr_mask = 0;
	if (mask & IBV_QP_PKEY_INDEX)
		q->attr.pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		q->attr.port_num = a->port_num;
	if (mask & IBV_QP_QKEY)
		q->attr.qkey = a->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		q->attr.qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_SQ_PSN)
		q->attr.sq_psn = a->sq_psn;
	q->attr_mask |= mask & (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS | IBV_QP_SQ_PSN);
}

static void forget_completions(struct ibv_qp *qp, bool keep_sent)
{
	shim_cq_forget(to_cq(qp->send_cq), qp->qp_num, keep_sent);
	if (qp->recv_cq != qp->send_cq)
		shim_cq_forget(to_cq(qp->recv_cq), qp->qp_num, keep_sent);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	ENTER_INT(qp->context);
	if (UNLIKELY(!to_qp(qp)->handle))
		return ENODEV; // it had a peer before a fork
	shim_check_signals(); // programs install handlers before they connect, and then only use the data path
	shim_send_lock(to_qp(qp));
	int e = set_errno(CORE(modify_qp, to_qp(qp)->handle, a, mask));
	shim_send_unlock(to_qp(qp));
	if (!e)
		note(to_qp(qp), a, mask);
	if (!e && mask & IBV_QP_STATE) {
		qp->state = a->qp_state;
		if (qp->state == IBV_QPS_RESET) // as drivers of adapters do it: programs that use it again count completions
			forget_completions(qp, false);
	}
	return e;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	ENTER_INT(qp->context);
	int e = set_errno(CORE(query_qp, to_qp(qp)->handle, a));
	if (e)
		return to_qp(qp)->handle ? e : ENODEV;
	*init = to_qp(qp)->init;
	init->qp_context = qp->qp_context;
	a->cap = init->cap; // all attributes are known, whatever the mask asks for
	if (mask & IBV_QP_STATE) // as rdma-core: a program that asks for something else keeps what it has said last
		qp->state = a->qp_state;
	return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	// Data is copied by memcpy, which promises no order within a message.
	(void)qp, (void)op, (void)flags;
	return 0;
}

// discard frees what is here of a queue pair.
static void discard(struct ibv_qp *qp)
{
	__atomic_sub_fetch(&shim_qps, 1, __ATOMIC_RELAXED);
	shim_drop(&to_qp(qp)->link);
	pthread_mutex_destroy(&qp->mutex);
	pthread_cond_destroy(&qp->cond);
	shim_batch_free(to_qp(qp));
	free(to_qp(qp)->ring);
	free(qp);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	if (shim_of_parent(qp->context) || !to_qp(qp)->handle) {
		discard(qp);
		return 0;
	}
	shim_meet();
	uint32_t async = 0;
	int e = set_errno(CORE(destroy_qp, to_qp(qp)->handle, &async));
	if (e)
		return e;
	// libfabric hands each receive that it finds then to the queue pair again, which is freed memory. That what was sent has
	// arrived it may learn: without, it tells its program that it was flushed. (Drivers of adapters forget both.)
	forget_completions(qp, true);
	shim_wait_acks(&qp->mutex, &qp->cond, &qp->events_completed, async);
	discard(qp);
	return 0;
}

// Enhanced connection establishment: there are no options to agree on, which is said as rdma-core says it.
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	memset(ece, 0, sizeof *ece);
	return EOPNOTSUPP;
}
