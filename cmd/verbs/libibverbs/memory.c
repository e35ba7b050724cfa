// Protection domains, memory regions and memory windows.
#include "shim.h"

#include <unistd.h>

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	ENTER_NULL(c);
	struct shim_pd *x = calloc(1, sizeof *x);
	if (!x)
		return null_errno(ENOMEM);
	struct ibv_pd *pd = &x->pd;
	pd->context = c;
	int e = CORE(alloc_pd, to_context(c)->handle, &pd->handle);
	if (e) {
		free(x);
		return null_errno(e);
	}
	shim_keep(SHIM_PD, &x->link);
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int e = 0;
	if (!shim_of_parent(pd->context)) {
		shim_meet();
		e = set_errno(CORE(dealloc_pd, pd->handle));
	}
	if (!e) {
		shim_drop(&((struct shim_pd *)pd)->link);
		free(pd);
	}
	return e;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	ENTER_NULL(pd->context);
	struct shim_mr *x = calloc(1, sizeof *x);
	if (!x)
		return null_errno(ENOMEM);
	struct ibv_mr *mr = &x->mr;
	struct goroce_mr a = {.addr = addr, .length = length, .iova = iova, .access = access};
	int e = CORE(reg_mr, pd->handle, &a);
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
	x->iova = iova;
	x->access = access;
	shim_keep(SHIM_MR, &x->link);
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

// What releases after 44 have besides (IBVERBS_1.15 to 1.18), with its structures. Memory is plain memory here, so what
// the program hands over as a buffer or as an address is registered in the same way.

struct buffer { // ibv_buf
	void *addr;
	size_t size;
	struct ibv_pd *pd;
};

enum { MR_EX_IOVA = 1, MR_EX_ADDR = 2, MR_EX_FD = 4, MR_EX_FD_OFFSET = 8, MR_EX_BUF = 32 };

struct region { // ibv_mr_init_attr
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buffer *buf;
};

LATER(void *, ibv_alloc_buf, (struct ibv_pd *pd, size_t size, struct buffer **buf));
LATER(void, ibv_free_buf, (struct buffer *buf));
LATER(int, ibv_export_buf_dmabuf_fd, (struct buffer *buf));
LATER(struct ibv_mr *, ibv_reg_mr_ex, (struct ibv_pd *pd, struct region *a));
LATER(struct ibv_mr *, ibv_reg_buf_mr, (struct ibv_pd *pd, struct buffer *buf, void *addr, size_t length, int access));

void *later_ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct buffer **buf)
{
	struct buffer *b = calloc(1, sizeof *b);
	if (!b)
		return null_errno(ENOMEM);
	int e = posix_memalign(&b->addr, (size_t)sysconf(_SC_PAGESIZE), size);
	if (e) {
		free(b);
		return null_errno(e);
	}
	b->size = size;
	b->pd = pd;
	*buf = b;
	return b->addr;
}

void later_ibv_free_buf(struct buffer *buf)
{
	free(buf->addr);
	free(buf);
}

int later_ibv_export_buf_dmabuf_fd(struct buffer *buf)
{
	(void)buf;
	errno = ENODATA;
	return -1;
}

static int in_buf(struct ibv_pd *pd, const struct region *a)
{
	const struct buffer *b = a->buf;
	uintptr_t at = (uintptr_t)a->addr - (uintptr_t)b->addr; // beyond the size if the address is before the buffer
	return pd == b->pd && at <= b->size && a->length <= b->size - at;
}

struct ibv_mr *later_ibv_reg_mr_ex(struct ibv_pd *pd, struct region *a)
{
	const uint64_t file = MR_EX_FD | MR_EX_FD_OFFSET;
	uint64_t has = a->comp_mask;
	if (has & MR_EX_BUF && (!(has & MR_EX_ADDR) || has & file || !in_buf(pd, a)))
		return null_errno(EINVAL);
	if (has & ~(file | MR_EX_IOVA | MR_EX_ADDR | MR_EX_BUF))
		return null_errno(EOPNOTSUPP);
	if (has & MR_EX_FD && (has & MR_EX_ADDR || !(has & MR_EX_FD_OFFSET) || !(has & MR_EX_IOVA)))
		return null_errno(EINVAL);
	if (has & MR_EX_FD)
		return ibv_reg_dmabuf_mr(pd, a->fd_offset, a->length, a->iova, a->fd, a->access);
	if (!(has & MR_EX_ADDR) || has & MR_EX_FD_OFFSET)
		return null_errno(EINVAL);
	uint64_t iova = has & MR_EX_IOVA ? a->iova : (uintptr_t)a->addr;
	return ibv_reg_mr_iova2(pd, a->addr, a->length, iova, (unsigned int)a->access);
}

struct ibv_mr *later_ibv_reg_buf_mr(struct ibv_pd *pd, struct buffer *buf, void *addr, size_t length, int access)
{
	struct region a = {
		.length = length, .access = access, .comp_mask = MR_EX_BUF | MR_EX_ADDR, .addr = addr, .buf = buf,
	};
	return later_ibv_reg_mr_ex(pd, &a);
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
	int e = CORE(rereg_mr, mr->handle, flags, flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0, &a);
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
		((struct shim_mr *)mr)->iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		((struct shim_mr *)mr)->access = (uint32_t)access;
	return 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int e = 0;
	if (!shim_of_parent(mr->context)) {
		shim_meet();
		e = set_errno(CORE(dereg_mr, mr->handle));
	}
	if (!e) {
		shim_drop(&((struct shim_mr *)mr)->link);
		free(mr);
	}
	return e;
}

struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	ENTER_NULL(pd->context);
	struct shim_mw *x = calloc(1, sizeof *x);
	if (!x)
		return null_errno(ENOMEM);
	struct ibv_mw *mw = &x->mw;
	int e = CORE(alloc_mw, pd->handle, (int)type, &mw->rkey, &mw->handle);
	if (e) {
		free(mw);
		return null_errno(e);
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	shim_keep(SHIM_MW, &x->link);
	return mw;
}

int shim_dealloc_mw(struct ibv_mw *mw)
{
	int e = 0;
	if (!shim_of_parent(mw->context)) {
		shim_meet();
		e = set_errno(CORE(dealloc_mw, mw->handle));
	}
	if (!e) {
		shim_drop(&((struct shim_mw *)mw)->link);
		free(mw);
	}
	return e;
}

int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	ENTER_INT(qp->context);
	shim_send_lock(to_qp(qp));
	int e = CORE(bind_mw, to_qp(qp)->handle, mw->handle, bind, &mw->rkey);
	shim_send_unlock(to_qp(qp));
	return e;
}
