// Endpoints: an ID that is resolved, or bound, and has what it needs in one call.
#include "cm.h"

// listener gets a passive endpoint ready. What it is given for queue pairs is for those of its requests.
static int listener(struct cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	if (rdma_bind_addr(&x->id, res->ai_src_addr))
		return -1;
	if (pd)
		x->id.pd = pd;
	if (!a)
		return 0;
	x->qp_attr = malloc(sizeof *x->qp_attr);
	if (!x->qp_attr)
		return cm_result(ENOMEM);
	*x->qp_attr = *a;
	x->qp_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int caller(struct cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	const int timeout_ms = 2000;
	if (rdma_resolve_addr(&x->id, res->ai_src_addr, res->ai_dst_addr, timeout_ms) ||
	    rdma_resolve_route(&x->id, timeout_ms))
		return -1;
	if (a) {
		a->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&x->id, pd, a))
			return -1;
	}
	if (!res->ai_connect_len)
		return 0;
	x->connect_data = malloc(res->ai_connect_len);
	if (!x->connect_data)
		return cm_result(ENOMEM);
	memcpy(x->connect_data, res->ai_connect, res->ai_connect_len);
	x->connect_len = res->ai_connect_len;
	return 0;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *a)
{
	struct rdma_cm_id *made;
	if (!id || !res)
		return cm_result(EINVAL);
	if (cm_id_create(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space, (enum ibv_qp_type)res->ai_qp_type))
		return -1;
	struct cm_id *x = (struct cm_id *)made;
	if ((res->ai_flags & RAI_PASSIVE ? listener : caller)(x, res, pd, a)) {
		int e = errno;
		rdma_destroy_ep(made);
		return cm_result(e);
	}
	*id = made;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!cm_id_of(id))
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cm_id *x = cm_id_of(listen);
	if (!x)
		return -1;
	if (!x->sync || !id)
		return cm_result(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	int e = 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		e = ECONNREFUSED;
	else if (event->status)
		e = event->status < 0 ? -event->status : event->status;
	else if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		e = EINVAL;
	else if (x->qp_attr) {
		struct ibv_qp_init_attr a = *x->qp_attr;
		if (rdma_create_qp(event->id, listen->pd, &a))
			e = errno;
	}
	if (e) {
		listen->event = event;
		return cm_result(e);
	}
	*id = event->id;
	event->id->event = event;
	return 0;
}
