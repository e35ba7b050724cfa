// Names and addresses.
#include "cm.h"

#include <netdb.h>
#include <netinet/in.h>

static int set_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	if (!len)
		return 0;
	*to = malloc(len);
	if (!*to)
		return cm_result(ENOMEM);
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

// hints_of translates hints into those of getaddrinfo.
static struct addrinfo hints_of(const struct rdma_addrinfo *h)
{
	struct addrinfo a = {.ai_family = h->ai_family};
	if (h->ai_flags & RAI_PASSIVE)
		a.ai_flags |= AI_PASSIVE;
	if (h->ai_flags & RAI_NUMERICHOST)
		a.ai_flags |= AI_NUMERICHOST;
	switch (h->ai_qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		a.ai_socktype = SOCK_STREAM;
		break;
	case IBV_QPT_UD:
		a.ai_socktype = SOCK_DGRAM;
		break;
	}
	switch (h->ai_port_space) {
	case RDMA_PS_TCP:
		a.ai_protocol = IPPROTO_TCP;
		break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		a.ai_protocol = IPPROTO_UDP;
		break;
	case RDMA_PS_IB:
		if (a.ai_socktype)
			a.ai_protocol = a.ai_socktype == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
		break;
	}
	return a;
}

// lookup asks getaddrinfo. Its error codes are returned as they are, which are negative.
static int lookup(const char *node, const char *service, const struct rdma_addrinfo *h, struct rdma_addrinfo *r)
{
	struct addrinfo hints, *a;
	if (h)
		hints = hints_of(h);
	int e = getaddrinfo(node, service, h ? &hints : NULL, &a);
	if (e)
		return e;
	r->ai_family = a->ai_family;
	r->ai_qp_type = h ? h->ai_qp_type : 0;
	r->ai_port_space = h ? h->ai_port_space : 0;
	if (!r->ai_qp_type)
		r->ai_qp_type = a->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
	if (!r->ai_port_space)
		r->ai_port_space = a->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
	char **name = &r->ai_dst_canonname;
	if (h && h->ai_flags & RAI_PASSIVE) {
		r->ai_flags = RAI_PASSIVE;
		name = &r->ai_src_canonname;
		e = set_addr(&r->ai_src_addr, &r->ai_src_len, a->ai_addr, a->ai_addrlen);
	} else {
		e = set_addr(&r->ai_dst_addr, &r->ai_dst_len, a->ai_addr, a->ai_addrlen);
	}
	if (!e && a->ai_canonname)
		*name = strdup(a->ai_canonname);
	freeaddrinfo(a);
	return e;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **res)
{
	if (!res || (!node && !service && !hints))
		return cm_result(EINVAL);
	struct rdma_addrinfo *r = calloc(1, sizeof *r);
	if (!r)
		return cm_result(ENOMEM);
	int e = 0;
	if (node || service) {
		e = lookup(node, service, hints, r);
	} else {
		r->ai_flags = hints->ai_flags;
		r->ai_family = hints->ai_family;
		r->ai_qp_type = hints->ai_qp_type;
		r->ai_port_space = hints->ai_port_space;
		e = set_addr(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	if (!e && hints && !r->ai_src_len)
		e = set_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (e) {
		rdma_freeaddrinfo(r);
		return e;
	}
	*res = r;
	return 0;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *);
int rdma_query_addrinfo(struct rdma_cm_id *, struct rdma_addrinfo **);
int rdma_write_cm_event(struct rdma_cm_id *, enum rdma_cm_event_type, int, uint64_t);

// resolve looks up, which takes place at once, as in rdma-core: only the answer comes by an event.
static int resolve(struct cm_id *x, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	int flags = hints ? hints->ai_flags & (CM_RAI_SA | CM_RAI_DNS) : 0;
	if (flags & CM_RAI_SA) // asks the administrator of an InfiniBand subnet; RoCE has none
		return flags & CM_RAI_DNS || node ? ENOTSUP : service ? EOPNOTSUPP : EINVAL;
	struct rdma_addrinfo *found;
	errno = 0;
	if (rdma_getaddrinfo(node, service, hints, &found))
		return errno ? errno : EADDRNOTAVAIL;
	pthread_mutex_lock(&cm_lock);
	x->found = found;
	pthread_mutex_unlock(&cm_lock);
	int e = CM(write_event, x->handle, CM_EVENT_ADDRINFO_RESOLVED, 0, 0);
	if (e) {
		pthread_mutex_lock(&cm_lock);
		x->found = NULL;
		pthread_mutex_unlock(&cm_lock);
		rdma_freeaddrinfo(found);
	}
	return e;
}

EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	pthread_mutex_lock(&cm_lock);
	bool busy = x->finding;
	x->finding = true;
	pthread_mutex_unlock(&cm_lock);
	if (busy)
		return cm_result(EBUSY);
	int e = resolve(x, node, service, hints);
	if (!e)
		return cm_id_complete(x);
	pthread_mutex_lock(&cm_lock);
	x->finding = false;
	pthread_mutex_unlock(&cm_lock);
	return cm_result(e);
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!info)
		return cm_result(EINVAL);
	pthread_mutex_lock(&cm_lock);
	struct rdma_addrinfo *found = x->found;
	if (found) {
		x->found = NULL;
		x->finding = false;
	}
	pthread_mutex_unlock(&cm_lock);
	if (!found)
		return cm_result(ENOENT);
	*info = found;
	return 0;
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	return cm_result((int)event == CM_EVENT_USER ? CM(write_event, x->handle, CM_EVENT_USER, status, arg) : EINVAL);
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	for (struct rdma_addrinfo *next; res; res = next) {
		next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
	}
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(e) [RDMA_CM_EVENT_##e] = "RDMA_CM_EVENT_" #e
	static const char *const names[] = {
		NAME(ADDR_RESOLVED), NAME(ADDR_ERROR), NAME(ROUTE_RESOLVED), NAME(ROUTE_ERROR), NAME(CONNECT_REQUEST),
		NAME(CONNECT_RESPONSE), NAME(CONNECT_ERROR), NAME(UNREACHABLE), NAME(REJECTED), NAME(ESTABLISHED),
		NAME(DISCONNECTED), NAME(DEVICE_REMOVAL), NAME(MULTICAST_JOIN), NAME(MULTICAST_ERROR), NAME(ADDR_CHANGE),
		NAME(TIMEWAIT_EXIT),
		"RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR", "RDMA_CM_EVENT_USER",
	};
#undef NAME
	size_t n = (size_t)event;
	return n < sizeof names / sizeof *names ? names[n] : "UNKNOWN EVENT";
}
