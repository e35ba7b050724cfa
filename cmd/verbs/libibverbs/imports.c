// Objects of another process, through a descriptor that the kernel gives out: there is no kernel here.
#include "shim.h"

EXPORT struct ibv_context *ibv_import_device(int fd) { (void)fd; return null_errno(EOPNOTSUPP); }
EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return null_errno(EOPNOTSUPP); }
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t h) { (void)pd, (void)h; return null_errno(EOPNOTSUPP); }
EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return null_errno(EOPNOTSUPP); }
EXPORT void ibv_unimport_pd(struct ibv_pd *pd) { (void)pd; }
EXPORT void ibv_unimport_mr(struct ibv_mr *mr) { (void)mr; }
EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { (void)dm; }

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return null_errno(EOPNOTSUPP);
}
