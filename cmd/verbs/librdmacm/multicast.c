// Multicast groups.
#include "cm.h"

static void unlink_group(struct cm_id *x, struct cm_group *g)
{
	pthread_mutex_lock(&cm_lock);
	for (struct cm_group **p = &x->groups; *p; p = &(*p)->next)
		if (*p == g) {
			*p = g->next;
			break;
		}
	pthread_mutex_unlock(&cm_lock);
}

static int join(struct rdma_cm_id *id, struct sockaddr *addr, uint32_t flags, void *context)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	int len = cm_addrlen(addr);
	if (!len)
		return cm_result(EINVAL);
	struct cm_group *g = calloc(1, sizeof *g);
	if (!g)
		return cm_result(ENOMEM);
	g->id = x;
	g->context = context;
	g->flags = flags;
	memcpy(&g->addr, addr, (size_t)len);
	pthread_mutex_lock(&cm_lock);
	g->next = x->groups;
	x->groups = g;
	pthread_mutex_unlock(&cm_lock);
	x->step = CM_USED;
	int e = CM(join, x->handle, addr, flags, (uintptr_t)g);
	if (e) {
		unlink_group(x, g);
		free(g);
		return cm_result(e);
	}
	return cm_id_complete(x);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *a, void *context)
{
	if (!a)
		return cm_result(EINVAL);
	if (a->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return cm_result(ENOTSUP);
	if (!(a->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !(a->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    a->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_result(EINVAL);
	return join(id, a->addr, a->join_flags, context);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	int len = cm_addrlen(addr);
	if (!len)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm_lock);
	struct cm_group *g = x->groups;
	while (g && memcmp(&g->addr, addr, (size_t)len))
		g = g->next;
	pthread_mutex_unlock(&cm_lock);
	if (!g)
		return cm_result(EADDRNOTAVAIL);
	unlink_group(x, g);
	if (g->attached && id->qp)
		ibv_detach_mcast(id->qp, &g->gid, 0);
	pthread_mutex_lock(&cm_lock); // no event of the group leaves the Go half any more
	int e = CM(leave, x->handle, addr);
	while (g->acked != g->reported)
		pthread_cond_wait(&x->all_acked, &cm_lock);
	pthread_mutex_unlock(&cm_lock);
	free(g);
	return cm_result(e);
}
