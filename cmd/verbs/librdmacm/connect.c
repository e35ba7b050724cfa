// Connections: asking for them, accepting and ending them.
#include "cm.h"

// check_depths refuses numbers of READs that the device does not have. Only connections that the program's own
// queue pair is for need a parameter.
static int check_depths(const struct cm_id *x, const struct rdma_conn_param *p)
{
	if (x->id.ps != RDMA_PS_TCP)
		return 0;
	if (!p)
		return x->id.qp ? 0 : EINVAL;
	if (p->responder_resources != RDMA_MAX_RESP_RES && p->responder_resources > x->device->max_responder_resources)
		return EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > x->device->max_initiator_depth)
		return EINVAL;
	return 0;
}

// own_data puts the private data of an endpoint before that of the program; what is returned is to be freed.
static void *own_data(struct cm_id *x, struct goroce_cm_param *g)
{
	if (!x->connect_len)
		return NULL;
	uint8_t *both = malloc(x->connect_len + g->private_data_len);
	if (!both)
		return NULL;
	memcpy(both, x->connect_data, x->connect_len);
	if (g->private_data_len)
		memcpy(both + x->connect_len, g->private_data, g->private_data_len);
	g->private_data = both;
	g->private_data_len += (uint32_t)x->connect_len;
	return both;
}

// param_of translates what the program says about a connection.
static void param_of(struct cm_id *x, const struct rdma_conn_param *p, struct goroce_cm_param *g)
{
	struct ibv_qp *qp = x->id.qp;
	memset(g, 0, sizeof *g);
	g->retry_count = g->rnr_retry_count = 7;
	if (p) {
		if (p->private_data) {
			g->private_data = p->private_data;
			g->private_data_len = p->private_data_len;
		}
		g->flow_control = p->flow_control;
		g->retry_count = p->retry_count;
		g->rnr_retry_count = p->rnr_retry_count;
		g->srq = p->srq;
		g->qp_num = p->qp_num;
	}
	if (qp) {
		g->qp_num = qp->qp_num;
		g->srq = !!qp->srq;
	}
	g->responder_resources = x->responder_resources;
	g->initiator_depth = x->initiator_depth;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	int e = check_depths(x, p);
	if (e)
		return cm_result(e);
	const struct cm_device *d = x->device;
	x->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH ? p->initiator_depth : d->max_initiator_depth;
	x->responder_resources =
		p && p->responder_resources != RDMA_MAX_RESP_RES ? p->responder_resources : d->max_responder_resources;
	struct goroce_cm_param g;
	param_of(x, p, &g);
	g.ece_vendor = x->local_ece.vendor_id;
	g.ece_options = x->local_ece.options;
	void *both = own_data(x, &g);
	if (x->connect_len && !both)
		return cm_result(ENOMEM);
	x->step = CM_USED;
	e = CM(connect_id, x->handle, &g);
	free(both);
	if (e)
		return cm_result(e);
	free(x->connect_data);
	x->connect_data = NULL;
	x->connect_len = 0;
	return cm_id_complete(x);
}

static uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	if (!id->qp && !p)
		return cm_result(EINVAL);
	int e = check_depths(x, p);
	if (e)
		return cm_result(e);
	const struct cm_device *d = x->device;
	x->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH
				     ? p->initiator_depth
				     : least(x->initiator_depth, d->max_initiator_depth);
	x->responder_resources = p && p->responder_resources != RDMA_MAX_RESP_RES
					 ? p->responder_resources
					 : least(x->responder_resources, d->max_responder_resources);
	if (!cm_is_ud(id)) {
		e = cm_qp_to_rts(x, x->responder_resources, x->initiator_depth);
		if (e)
			return cm_result(e);
	}
	struct goroce_cm_param g;
	param_of(x, p, &g);
	g.ece_vendor = x->remote_ece.vendor_id;
	g.ece_options = x->local_ece.options;
	e = CM(accept_id, x->handle, &g);
	if (e) {
		cm_qp_to_err(x);
		return cm_result(e);
	}
	if (!cm_is_ud(id))
		return cm_id_complete(x);
	if (x->sync && id->event) { // no event says that the answer has arrived
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	return 0;
}

// cm_connected gets the queue pair ready and confirms the connection.
int cm_connected(struct cm_id *x, const struct goroce_cm_param *p)
{
	struct ibv_qp *qp = x->id.qp;
	struct ibv_ece ece = {.vendor_id = x->local_ece.vendor_id};
	int e;
	if (p->ece_vendor) {
		if (p->ece_vendor != x->local_ece.vendor_id) {
			cm_qp_to_err(x);
			return EINVAL; // nobody answers for another maker's adapter
		}
		ece.options = p->ece_options;
	}
	x->remote_ece.vendor_id = p->ece_vendor;
	e = ibv_set_ece(qp, &ece);
	if (e && e != EOPNOTSUPP)
		return e;
	e = cm_qp_to_rts(x, CM_AS_SAID, CM_AS_SAID);
	if (!e)
		e = CM(accept_id, x->handle, NULL);
	if (e) {
		cm_qp_to_err(x);
		return e;
	}
	e = ibv_query_ece(qp, &ece);
	x->local_ece.options = e ? 0 : ece.options;
	return 0;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (id->qp)
		return cm_result(EINVAL);
	return cm_result(CM(accept_id, x->handle, NULL));
}

enum { reject_consumer = 28, reject_vendor_option = 35 }; // reasons of the CM protocol

static int reject(struct rdma_cm_id *id, uint32_t reason, const void *private_data, uint8_t len)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	return cm_result(CM(reject, x->handle, reason, private_data, private_data ? len : 0));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, reject_consumer, private_data, private_data_len);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, reject_vendor_option, private_data, private_data_len);
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	struct cm_id *x = cm_id_of(id);
	return x ? cm_result(CM(notify, x->handle, event)) : -1;
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	__atomic_store_n(&x->ended, true, __ATOMIC_RELAXED);
	int e = cm_qp_to_err(x);
	if (!e)
		e = CM(disconnect, x->handle);
	if (e)
		return cm_result(e);
	return cm_is_ud(id) ? 0 : cm_id_complete(x);
}
