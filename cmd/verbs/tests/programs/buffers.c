// Buffers that the library allocates and regions that a structure describes: functions of later releases than the headers of
// this build. rdma-core's own examples of release 65 take their memory so.
#include "check.h"

#include <dlfcn.h>

struct init { // ibv_mr_init_attr
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	void *buf;
};

enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32 };

static void *symbol(const char *name, const char *version)
{
	void *f = dlvsym(RTLD_DEFAULT, name, version);
	CHECK(f);
	return f;
}

int main(void)
{
	void *(*alloc)(struct ibv_pd *, size_t, void **) = symbol("ibv_alloc_buf", "IBVERBS_1.17");
	void (*release)(void *) = symbol("ibv_free_buf", "IBVERBS_1.17");
	struct ibv_mr *(*reg_buf)(struct ibv_pd *, void *, void *, size_t, int) = symbol("ibv_reg_buf_mr", "IBVERBS_1.17");
	struct ibv_mr *(*reg_ex)(struct ibv_pd *, struct init *) = symbol("ibv_reg_mr_ex", "IBVERBS_1.15");
	int (*export)(void *) = symbol("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");

	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 1 << 16);
	strcpy(a.buf, "hello");

	void *buf;
	char *p = alloc(b.pd, 10000, &buf);
	CHECK(p && (uintptr_t)p % 4096 == 0);
	struct ibv_mr *mr = reg_buf(b.pd, buf, p + 100, 9900, ALL_ACCESS);
	CHECK(mr && mr->addr == p + 100 && mr->length == 9900 && mr->pd == b.pd && mr->context == b.ctx);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 6, (uintptr_t)p + 9994, mr->rkey);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(p + 9994, "hello"));
	FAILS_INT(0, ibv_dereg_mr(mr));

	// Only what is inside the buffer, and in its domain; and there is no file behind it.
	FAILS(EINVAL, reg_buf(b.pd, buf, p + 101, 9900, ALL_ACCESS));
	FAILS(EINVAL, reg_buf(b.pd, buf, p - 1, 10, ALL_ACCESS));
	FAILS(EINVAL, reg_buf(b.pd, buf, p + 100, SIZE_MAX, ALL_ACCESS));
	FAILS(EINVAL, reg_buf(a.pd, buf, p, 10, ALL_ACCESS));
	FAILS(EINVAL, reg_ex(b.pd, &(struct init){.length = 10, .comp_mask = BUF, .buf = buf, .addr = p}));
	FAILS(EINVAL, reg_ex(b.pd, &(struct init){.length = 10, .comp_mask = BUF | ADDR | FD, .buf = buf, .addr = p}));
	errno = 0;
	CHECK(export(buf) == -1 && errno == ENODATA);

	// A structure with an address, and with one of the program's choice besides.
	struct init at = {.length = 100, .access = ALL_ACCESS, .comp_mask = ADDR, .addr = p + 200};
	mr = reg_ex(b.pd, &at);
	CHECK(mr && mr->addr == p + 200);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 6, (uintptr_t)p + 200, mr->rkey);
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_dereg_mr(mr));
	at.comp_mask |= IOVA;
	at.iova = 0x10000;
	mr = reg_ex(b.pd, &at);
	CHECK(mr);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 6, 0x10010, mr->rkey);
	expect_wc(a.cq, 3, IBV_WC_SUCCESS);
	CHECK(!strcmp(p + 216, "hello"));
	FAILS_INT(0, ibv_dereg_mr(mr));

	// What no device in software has, and what does not fit together.
	at.comp_mask = ADDR | DMAH;
	FAILS(EOPNOTSUPP, reg_ex(b.pd, &at));
	at.comp_mask = FD | FD_OFFSET | IOVA;
	FAILS(EOPNOTSUPP, reg_ex(b.pd, &at));
	for (const uint64_t *m = (uint64_t[]){FD, FD | ADDR | FD_OFFSET | IOVA, ADDR | FD_OFFSET, IOVA, 0, UINT64_MAX}; *m != UINT64_MAX; m++) {
		at.comp_mask = *m;
		FAILS(EINVAL, reg_ex(b.pd, &at));
	}

	release(buf);
	end_close(&a);
	end_close(&b);
	return 0;
}
