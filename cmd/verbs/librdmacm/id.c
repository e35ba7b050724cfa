// Identifiers: making and ending them, and where they are.
#include "cm.h"

#include <infiniband/sa.h>
#include <netinet/in.h>

struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
	if (!cm_live(id)) {
		errno = EINVAL;
		return NULL;
	}
	struct cm_id *x = (struct cm_id *)id;
	if (cm_foreign(&x->born) || !x->handle) {
		errno = ENODEV;
		return NULL;
	}
	return x;
}

struct cm_id *cm_id_on_device(struct rdma_cm_id *id)
{
	struct cm_id *x = cm_id_of(id);
	if (x && !x->device) {
		errno = EINVAL;
		return NULL;
	}
	return x;
}

int cm_addrlen(const struct sockaddr *a)
{
	if (!a)
		return 0;
	switch (a->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	}
	return 0;
}

struct cm_id *cm_id_new(struct rdma_event_channel *c, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct cm_id *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	x->born = goroce_generation();
	x->id.channel = c;
	x->id.context = context;
	x->id.ps = ps;
	x->id.qp_type = type;
	pthread_cond_init(&x->all_acked, NULL);
	return x;
}

void cm_id_free(struct cm_id *x)
{
	struct cm_group *next;
	for (struct cm_group *g = x->groups; g; g = next) {
		next = g->next;
		free(g);
	}
	pthread_cond_destroy(&x->all_acked);
	rdma_freeaddrinfo(x->found);
	free(x->id.route.path_rec);
	free(x->connect_data);
	free(x->qp_attr);
	free(x);
}

int cm_id_create(struct rdma_event_channel *c, struct rdma_cm_id **id, void *context, enum rdma_port_space ps,
		 enum ibv_qp_type type)
{
	if (!id)
		return cm_result(EINVAL);
	if (cm_devices_open())
		return -1;
	bool sync = !c;
	if (sync ? !(c = cm_channel_new(false)) : !cm_channel_of(c))
		return -1;
	int e = ENOMEM;
	struct cm_id *x = cm_id_new(c, context, ps, type);
	if (x) {
		x->sync = sync;
		e = CM(create_id, ((struct cm_channel *)c)->handle, ps, type, (uintptr_t)x, &x->handle);
		if (!e) {
			pthread_mutex_lock(&cm_lock);
			e = cm_live_add(x);
			if (!e)
				cm_keep(&cm_ids, &x->link);
			pthread_mutex_unlock(&cm_lock);
			if (e)
				CM(destroy_id, x->handle);
		}
		if (e)
			cm_id_free(x);
	}
	if (e) {
		if (sync)
			rdma_destroy_event_channel(c);
		return cm_result(e);
	}
	*id = &x->id;
	return 0;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	bool datagrams = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
	return cm_id_create(channel, id, context, ps, datagrams ? IBV_QPT_UD : IBV_QPT_RC);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&cm_lock);
	struct cm_id *x = cm_live_has(id) ? (struct cm_id *)id : NULL;
	if (x) {
		cm_live_remove(x);
		cm_drop(&x->link);
		if (!cm_of_parent(x->born) && x->handle && !goroce_foreign(x->born))
			CM(destroy_id, x->handle);
	}
	pthread_mutex_unlock(&cm_lock);
	if (!x)
		return cm_result(EINVAL);
	if (id->event)
		rdma_ack_cm_event(id->event);
	pthread_mutex_lock(&cm_lock);
	while (x->acked != x->reported)
		pthread_cond_wait(&x->all_acked, &cm_lock);
	pthread_mutex_unlock(&cm_lock);
	if (x->sync)
		rdma_destroy_event_channel(id->channel);
	cm_id_free(x);
	return 0;
}

int cm_id_refresh(struct cm_id *x)
{
	struct goroce_cm_route r;
	struct rdma_addr *a = &x->id.route.addr;
	int e = CM(query_id, x->handle, &r);
	if (e)
		return e;
	if (r.src.ss_family)
		a->src_storage = r.src;
	if (r.dst.ss_family)
		a->dst_storage = r.dst;
	if (x->device || r.device < 0)
		return 0;
	x->device = cm_device_get(r.device);
	if (!x->device)
		return ENODEV;
	x->id.verbs = x->device->verbs;
	x->id.port_num = 1;
	a->addr.ibaddr.pkey = htobe16(0xffff);
	memcpy(&a->addr.ibaddr.sgid, r.sgid, 16);
	memcpy(&a->addr.ibaddr.dgid, r.dgid, 16);
	if (!x->id.pd)
		x->id.pd = cm_device_pd(x->device);
	return x->id.pd ? 0 : errno;
}

// cm_id_path fills in the path record that a RoCE route of the kernel has.
int cm_id_path(struct cm_id *x)
{
	struct goroce_cm_route r;
	int e = CM(query_id, x->handle, &r);
	if (e || x->id.route.path_rec)
		return e;
	struct ibv_sa_path_rec *p = calloc(1, sizeof *p);
	if (!p)
		return ENOMEM;
	memcpy(&p->sgid, r.sgid, 16);
	memcpy(&p->dgid, r.dgid, 16);
	memcpy(&x->id.route.addr.addr.ibaddr.sgid, r.sgid, 16);
	memcpy(&x->id.route.addr.addr.ibaddr.dgid, r.dgid, 16);
	p->hop_limit = 64;
	p->traffic_class = r.traffic_class;
	p->reversible = 1;
	p->numb_path = 1;
	p->pkey = htobe16(0xffff);
	p->mtu_selector = p->rate_selector = p->packet_life_time_selector = 2; // exactly
	p->mtu = r.mtu;
	p->rate = IBV_RATE_10_GBPS;
	p->packet_life_time = 18;
	x->id.route.path_rec = p;
	x->id.route.num_paths = 1;
	return 0;
}

int cm_id_complete(struct cm_id *x)
{
	if (!x->sync)
		return 0;
	if (x->id.event) {
		rdma_ack_cm_event(x->id.event);
		x->id.event = NULL;
	}
	if (rdma_get_cm_event(x->id.channel, &x->id.event))
		return -1;
	int status = x->id.event->status;
	if (!status)
		return 0;
	if (x->id.event->event == RDMA_CM_EVENT_REJECTED)
		return cm_result(ECONNREFUSED);
	return cm_result(status < 0 ? -status : status);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!cm_addrlen(addr))
		return cm_result(EINVAL);
	int e = CM(bind_addr, x->handle, addr);
	if (!e)
		x->step = CM_BOUND;
	return cm_result(e ? e : cm_id_refresh(x));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	(void)timeout_ms; // nothing takes time: the kernel's tables say all there is to know
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!cm_addrlen(dst) || (src && !cm_addrlen(src)))
		return cm_result(EINVAL);
	int e = CM(resolve_addr, x->handle, src, dst);
	if (e)
		return cm_result(e);
	memcpy(&id->route.addr.dst_storage, dst, (size_t)cm_addrlen(dst));
	x->step = CM_ADDR;
	return cm_id_complete(x);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	int e = CM(resolve_route, x->handle);
	if (!e)
		x->step = CM_ROUTE;
	return e ? cm_result(e) : cm_id_complete(x);
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	int e = CM(listen_id, x->handle, backlog, -1);
	if (!e) {
		x->step = CM_LISTENS;
		x->backlog = backlog;
	}
	return cm_result(e ? e : cm_id_refresh(x));
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!optval && optlen)
		return cm_result(EFAULT);
	int e = CM(set_option, x->handle, level, optname, optval, optlen);
	if (!e && level == RDMA_OPTION_ID) // one that is not known was refused
		x->set[optname] = 1 + (optlen == 1 ? *(uint8_t *)optval : !!*(int *)optval);
	return cm_result(e);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!channel && x->sync)
		return cm_result(EINVAL);
	bool sync = !channel;
	if (sync ? !(channel = cm_channel_new(false)) : !cm_channel_of(channel))
		return -1;
	pthread_mutex_lock(&cm_lock);
	int e = CM(migrate_id, x->handle, ((struct cm_channel *)channel)->handle);
	unsigned reported = x->reported;
	pthread_mutex_unlock(&cm_lock);
	if (e) {
		if (sync)
			rdma_destroy_event_channel(channel);
		return cm_result(e);
	}
	if (x->sync) {
		if (id->event) {
			rdma_ack_cm_event(id->event);
			id->event = NULL;
		}
		rdma_destroy_event_channel(id->channel);
	}
	pthread_mutex_lock(&cm_lock);
	x->sync = sync;
	id->channel = channel;
	while ((int)(reported - x->acked) > 0)
		pthread_cond_wait(&x->all_acked, &cm_lock);
	pthread_mutex_unlock(&cm_lock);
	return 0;
}

static __be16 port_of(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)a)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)a)->sin6_port;
	}
	return 0;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.src_addr); }
EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.dst_addr); }

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	// With a queue pair it is that of its device. comp_mask is for what is still to come.
	if (id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return cm_result(EINVAL);
	x->local_ece = *ece;
	return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (id->qp || !ece)
		return cm_result(EINVAL);
	*ece = (struct ibv_ece){.vendor_id = x->remote_ece.vendor_id, .options = x->remote_ece.options};
	return 0;
}
