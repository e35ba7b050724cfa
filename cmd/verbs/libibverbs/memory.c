// Protection domains, memory regions and memory windows.
#include "shim.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	ENTER_NULL(c);
	struct ibv_pd *pd = calloc(1, sizeof *pd);
	if (!pd)
		return null_errno(ENOMEM);
	pd->context = c;
	int e = core->alloc_pd(to_context(c)->handle, &pd->handle);
	if (e) {
		free(pd);
		return null_errno(e);
	}
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	ENTER_INT(pd->context);
	int e = core->dealloc_pd(pd->handle);
	if (!e)
		free(pd);
	return e;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	ENTER_NULL(pd->context);
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return null_errno(ENOMEM);
	struct goroce_mr a = {.addr = addr, .length = length, .iova = iova, .access = access};
	int e = core->reg_mr(pd->handle, &a);
	if (e) {
		free(mr);
		return null_errno(e);
	}
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->handle = a.handle;
	mr->lkey = a.lkey;
	mr->rkey = a.rkey;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (shim_foreign(mr->context) || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || !flags ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr)) || (flags & IBV_REREG_MR_CHANGE_PD && !pd) ||
	    (flags & IBV_REREG_MR_CHANGE_ACCESS && access < 0)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	shim_meet();
	struct goroce_mr a = {.addr = addr, .length = length, .iova = (uintptr_t)addr, .access = (uint32_t)access};
	int e = core->rereg_mr(mr->handle, flags, flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0, &a);
	if (e) {
		// The core has changed nothing, so that the region is as it was.
		errno = e;
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr->lkey = a.lkey;
	mr->rkey = a.rkey;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->pd = pd;
		mr->context = pd->context;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	ENTER_INT(mr->context);
	int e = core->dereg_mr(mr->handle);
	if (!e)
		free(mr);
	return e;
}

struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	ENTER_NULL(pd->context);
	struct ibv_mw *mw = calloc(1, sizeof *mw);
	if (!mw)
		return null_errno(ENOMEM);
	int e = core->alloc_mw(pd->handle, (int)type, &mw->rkey, &mw->handle);
	if (e) {
		free(mw);
		return null_errno(e);
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	return mw;
}

int shim_dealloc_mw(struct ibv_mw *mw)
{
	ENTER_INT(mw->context);
	int e = core->dealloc_mw(mw->handle);
	if (!e)
		free(mw);
	return e;
}

int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	ENTER_INT(qp->context);
	shim_send_lock(to_qp(qp));
	int e = core->bind_mw(to_qp(qp)->handle, mw->handle, bind, &mw->rkey);
	shim_send_unlock(to_qp(qp));
	return e;
}
