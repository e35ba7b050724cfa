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
	};
#undef NAME
	size_t n = (size_t)event;
	return n < sizeof names / sizeof *names ? names[n] : "UNKNOWN EVENT";
}
