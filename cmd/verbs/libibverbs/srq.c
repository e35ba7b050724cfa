// Shared receive queues.
#include "shim.h"

#include <pthread.h>

static struct ibv_srq *create(struct ibv_pd *pd, void *context, struct ibv_srq_attr *attr)
{
	ENTER_NULL(pd->context);
	struct shim_srq *s = calloc(1, sizeof *s);
	if (!s)
		return null_errno(ENOMEM);
	s->srq.context = pd->context;
	s->srq.pd = pd;
	s->srq.srq_context = context;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	struct goroce_srq a = {.pd = pd->handle, .attr = *attr, .cookie = (uintptr_t)s};
	int e = CORE(create_srq, &a);
	if (e) {
		free(s);
		return null_errno(e);
	}
	*attr = a.attr;
	s->srq.handle = s->handle = a.handle;
	s->max_sge = a.attr.max_sge;
	s->attr = a.attr;
	shim_keep(SHIM_SRQ, &s->link);
	return &s->srq;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	return create(pd, a->srq_context, &a->attr);
}

struct ibv_srq *shim_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	(void)c;
	if (a->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1) || !(a->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return null_errno(EINVAL);
	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type != IBV_SRQT_BASIC)
		return null_errno(EOPNOTSUPP); // XRC and tag matching
	return create(a->pd, a->srq_context, &a->attr);
}

// Only queues of XRC have numbers.
int shim_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	(void)srq, (void)num;
	return EOPNOTSUPP;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask)
{
	ENTER_INT(srq->context);
	int e = set_errno(CORE(modify_srq, to_srq(srq)->handle, a, mask));
	if (!e && mask & IBV_SRQ_MAX_WR)
		to_srq(srq)->attr.max_wr = a->max_wr;
	if (!e && mask & IBV_SRQ_LIMIT)
		to_srq(srq)->attr.srq_limit = a->srq_limit;
	return e;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a)
{
	ENTER_INT(srq->context);
	return set_errno(CORE(query_srq, to_srq(srq)->handle, a));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	if (!shim_of_parent(srq->context)) {
		shim_meet();
		uint32_t async = 0;
		int e = set_errno(CORE(destroy_srq, to_srq(srq)->handle, &async));
		if (e)
			return e;
		shim_wait_acks(&srq->mutex, &srq->cond, &srq->events_completed, async);
	}
	shim_drop(&to_srq(srq)->link);
	pthread_mutex_destroy(&srq->mutex);
	pthread_cond_destroy(&srq->cond);
	free(srq);
	return 0;
}
