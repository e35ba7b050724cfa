// Posting work requests: the Go half is entered once a call.
#include "shim.h"

int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	shim_meet();
	return core->post_send(to_qp(qp)->handle, wr, bad);
}

int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	shim_meet();
	return core->post_recv(to_qp(qp)->handle, wr, bad);
}

int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	shim_meet();
	return core->post_srq_recv(to_srq(srq)->handle, wr, bad);
}
