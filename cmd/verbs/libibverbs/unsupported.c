// What this device does not have. The operations of verbs_context that it lacks are NULL there: the inline functions of
// verbs.h answer EOPNOTSUPP then. Here are the functions that libibverbs exports.
#include "shim.h"

// Objects of another process come through a descriptor that the kernel gives out: there is no kernel here.

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

// Functions of releases after 44 (IBVERBS_1.15 to 1.18).
#define NO_INT(name) \
	LATER(int, name, (void)); \
	int later_##name(void) { return errno = EOPNOTSUPP; }
#define NO_FD(name) \
	LATER(int, name, (void)); \
	int later_##name(void) { errno = EOPNOTSUPP; return -1; }
#define NO_OBJECT(name) \
	LATER(void *, name, (void)); \
	void *later_##name(void) { return null_errno(EOPNOTSUPP); }
NO_OBJECT(ibv_alloc_dmah)
NO_INT(ibv_dealloc_dmah)
NO_FD(ibv_dm_export_dmabuf_fd)
NO_INT(ibv_query_port_speed)
NO_INT(_ibv_query_comp_cntr_caps)
NO_OBJECT(ibv_create_comp_cntr)
NO_INT(ibv_destroy_comp_cntr)
NO_INT(ibv_inc_comp_cntr)
NO_INT(ibv_inc_err_comp_cntr)
NO_INT(ibv_qp_attach_comp_cntr)
NO_INT(ibv_read_comp_cntr)
NO_INT(ibv_read_err_comp_cntr)
NO_INT(ibv_set_comp_cntr)
NO_INT(ibv_set_err_comp_cntr)
