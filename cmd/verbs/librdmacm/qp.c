// Queue pairs of identifiers: made with all they need, and moved through their states.
#include "cm.h"

// init_attr asks what a queue pair has to be given to go to attr->qp_state.
static int init_attr(struct cm_id *x, struct ibv_qp_attr *attr, int *mask)
{
	return CM(qp_attr, x->handle, attr, mask);
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *x = cm_id_of(id);
	if (!x)
		return -1;
	if (!attr || !mask)
		return cm_result(EINVAL);
	return cm_result(init_attr(x, attr, mask));
}

// cm_qp_move takes the queue pair to one state; depth is the number of READs of RTR and RTS, or CM_AS_SAID.
int cm_qp_move(struct cm_id *x, enum ibv_qp_state to, int depth)
{
	struct ibv_qp_attr attr = {.qp_state = to};
	int mask, e = init_attr(x, &attr, &mask);
	if (e)
		return e;
	if (depth != CM_AS_SAID) {
		if (to == IBV_QPS_RTR)
			attr.max_dest_rd_atomic = (uint8_t)depth;
		else
			attr.max_rd_atomic = (uint8_t)depth;
	}
	return ibv_modify_qp(x->id.qp, &attr, mask);
}

int cm_qp_to_rts(struct cm_id *x, int responder_resources, int initiator_depth)
{
	if (!x->id.qp)
		return 0;
	// INIT again, since now the peer may do something.
	int e = cm_qp_move(x, IBV_QPS_INIT, CM_AS_SAID);
	if (!e)
		e = cm_qp_move(x, IBV_QPS_RTR, responder_resources);
	if (!e)
		e = cm_qp_move(x, IBV_QPS_RTS, initiator_depth);
	return e;
}

int cm_qp_to_err(struct cm_id *x)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	return x->id.qp ? ibv_modify_qp(x->id.qp, &attr, IBV_QP_STATE) : 0;
}

// first_states takes a new queue pair to INIT, so that receives can be posted; for datagrams to RTS.
static int first_states(struct cm_id *x, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask, e = init_attr(x, &attr, &mask);
	if (!e)
		e = ibv_modify_qp(qp, &attr, mask);
	if (e || !cm_is_ud(&x->id))
		return e;
	attr.qp_state = IBV_QPS_RTR;
	e = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	if (e)
		return e;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void destroy_pair(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

// cm_qp_destroy_cqs ends the completion queues that came with the queue pair.
void cm_qp_destroy_cqs(struct rdma_cm_id *id)
{
	if (id->send_cq == id->recv_cq)
		id->send_cq = NULL;
	if (id->send_cq_channel == id->recv_cq_channel)
		id->send_cq_channel = NULL;
	destroy_pair(&id->recv_cq, &id->recv_cq_channel);
	destroy_pair(&id->send_cq, &id->send_cq_channel);
}

static int create_pair(struct rdma_cm_id *id, int size, struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (!size)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(id->verbs, size, id, *channel, 0);
	return *cq ? 0 : errno;
}

// create_cqs makes the completion queues that the program has not brought; 0 is none.
static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	int e = create_pair(id, (int)recv, &id->recv_cq, &id->recv_cq_channel);
	if (!e)
		e = create_pair(id, (int)send, &id->send_cq, &id->send_cq_channel);
	if (e)
		cm_qp_destroy_cqs(id);
	return e;
}

// init_ece takes over what the device says about enhanced connection establishment, and tells it what the peer
// has said.
static int init_ece(struct cm_id *x, struct ibv_qp *qp)
{
	struct ibv_ece ece = {0};
	int e = ibv_query_ece(qp, &ece);
	if (e && e != EOPNOTSUPP)
		return e;
	x->local_ece.vendor_id = ece.vendor_id;
	x->local_ece.options = ece.options;
	if (!x->remote_ece.vendor_id)
		return 0;
	ece = (struct ibv_ece){.vendor_id = x->local_ece.vendor_id};
	if (x->remote_ece.vendor_id == x->local_ece.vendor_id)
		ece.options = x->remote_ece.options;
	e = ibv_set_ece(qp, &ece);
	return e == EOPNOTSUPP ? 0 : e;
}

// finish gets a queue pair ready.
static int finish(struct cm_id *x, struct ibv_qp *qp)
{
	int e = init_ece(x, qp);
	if (!e)
		e = first_states(x, qp);
	if (e || !x->remote_ece.vendor_id)
		return e;
	struct ibv_ece ece = {0};
	e = ibv_query_ece(qp, &ece);
	if (!e)
		x->local_ece.options = ece.options;
	return e == EOPNOTSUPP ? 0 : e;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	if (!a || id->qp)
		return cm_result(EINVAL);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_QP_INIT_ATTR_PD;
		a->pd = id->pd;
	} else if (a->pd->context != id->verbs) {
		return cm_result(EINVAL);
	}
	if ((id->recv_cq && a->recv_cq && id->recv_cq != a->recv_cq) ||
	    (id->send_cq && a->send_cq && id->send_cq != a->send_cq))
		return cm_result(EINVAL);
	int e = create_cqs(id, a->send_cq || id->send_cq ? 0 : a->cap.max_send_wr,
			   a->recv_cq || id->recv_cq ? 0 : a->cap.max_recv_wr);
	if (e)
		return cm_result(e);
	if (!a->send_cq)
		a->send_cq = id->send_cq;
	if (!a->recv_cq)
		a->recv_cq = id->recv_cq;
	if (id->srq && !a->srq)
		a->srq = id->srq;
	struct ibv_qp *qp = ibv_create_qp_ex(id->verbs, a);
	if (!qp) {
		e = errno;
	} else {
		e = finish(x, qp);
		if (!e) {
			id->qp = qp;
			id->pd = qp->pd;
			return 0;
		}
		ibv_destroy_qp(qp);
	}
	cm_qp_destroy_cqs(id);
	return cm_result(e);
}

// The structures of the functions that came first are the beginnings of those that came later.
EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex ex = {0};
	if (!a)
		return cm_result(EINVAL);
	memcpy(&ex, a, sizeof *a);
	ex.comp_mask = pd ? IBV_QP_INIT_ATTR_PD : 0;
	ex.pd = pd;
	int r = rdma_create_qp_ex(id, &ex);
	memcpy(a, &ex, sizeof *a);
	return r;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!cm_id_of(id) || !id->qp)
		return;
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	cm_qp_destroy_cqs(id);
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *a)
{
	struct cm_id *x = cm_id_on_device(id);
	if (!x)
		return -1;
	if (!a || id->srq || !(a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return cm_result(EINVAL);
	if (a->srq_type == IBV_SRQT_XRC)
		return cm_result(EOPNOTSUPP); // as ibv_open_xrcd
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		a->pd = id->pd;
	}
	struct ibv_srq *srq = ibv_create_srq_ex(id->verbs, a);
	if (!srq)
		return -1;
	if (!id->pd)
		id->pd = a->pd;
	id->srq = srq;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct ibv_srq_init_attr_ex ex = {0};
	if (!a)
		return cm_result(EINVAL);
	memcpy(&ex, a, sizeof *a);
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.srq_type = IBV_SRQT_BASIC;
	ex.pd = pd;
	int r = rdma_create_srq_ex(id, &ex);
	memcpy(a, &ex, sizeof *a);
	return r;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!cm_id_of(id) || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		cm_qp_destroy_cqs(id);
}
