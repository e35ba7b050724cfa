// Multicast groups.
#include "shim.h"

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	ENTER_INT(qp->context);
	(void)lid; // RoCE has none
	union ibv_gid group = *gid;
	return set_errno(CORE(attach_mcast, to_qp(qp)->handle, &group));
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	ENTER_INT(qp->context);
	(void)lid;
	union ibv_gid group = *gid;
	return set_errno(CORE(detach_mcast, to_qp(qp)->handle, &group));
}
