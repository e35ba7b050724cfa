// Registered memory is the program's: any address, addresses of its own choice, new memory under an old region, mappings
// that can only be read, and 1 TiB of which nearly nothing is there.
#include "check.h"

#include <sys/mman.h>

#define TIB (UINT64_C(1) << 40)

int main(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 1 << 16);
	strcpy(a.buf, "hello");

	// Any address, with any flags that a device may ignore.
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf + 12345, 7, ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB);
	CHECK(mr && mr->addr == b.buf + 12345 && mr->length == 7 && mr->pd == b.pd && mr->context == b.ctx);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 6, (uintptr_t)b.buf + 12345, mr->rkey);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 12345, "hello"));
	FAILS_INT(0, ibv_dereg_mr(mr));

	// No bytes at all, as on a kernel.
	mr = ibv_reg_mr(b.pd, b.buf + 1, 0, ALL_ACCESS);
	CHECK(mr && mr->length == 0);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 9, 0, 0, (uintptr_t)b.buf + 1, mr->rkey);
	expect_wc(a.cq, 9, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_dereg_mr(mr));
	FAILS(EINVAL, ibv_reg_mr(b.pd, NULL, 0, ALL_ACCESS));

	// Addresses of the program's choice.
	mr = ibv_reg_mr_iova(b.pd, b.buf + 4096, 4096, 0x123456789000, ALL_ACCESS);
	CHECK(mr);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 6, 0x123456789010, mr->rkey);
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 4096 + 16, "hello"));

	// Other memory, and then other rights: a peer that has the key of before gets nothing.
	uint32_t old = mr->rkey;
	FAILS_INT(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b.buf + 8192, 4096, 0));
	CHECK(mr->addr == b.buf + 8192);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 6, (uintptr_t)b.buf + 8192, mr->rkey);
	expect_wc(a.cq, 3, IBV_WC_SUCCESS);
	CHECK(!strcmp(b.buf + 8192, "hello"));
	FAILS_INT(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0));
	FAILS_INT(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 10, 0));
	FAILS_INT(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0));
	FAILS_INT(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0));
	CHECK(old != mr->rkey);
	// Other rights alone leave the keys as they are: programs have told them to their peers.
	old = mr->rkey;
	FAILS_INT(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	post_rdma(&a, IBV_WR_RDMA_READ, 4, 100, 6, (uintptr_t)b.buf + 8192, mr->rkey);
	expect_wc(a.cq, 4, IBV_WC_SUCCESS);
	CHECK(!strcmp(a.buf + 100, "hello"));
	CHECK(old == mr->rkey);
	FAILS_INT(0, ibv_dereg_mr(mr));

	// So a region has a key before it grants something.
	mr = ibv_reg_mr(b.pd, b.buf + 8192, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->rkey);
	old = mr->rkey;
	FAILS_INT(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	post_rdma(&a, IBV_WR_RDMA_READ, 8, 300, 6, (uintptr_t)b.buf + 8192, old);
	expect_wc(a.cq, 8, IBV_WC_SUCCESS);
	CHECK(!strcmp(a.buf + 300, "hello"));
	FAILS_INT(0, ibv_dereg_mr(mr));

	// 1 TiB: nothing is reserved or touched.
	char *sparse = mmap(NULL, TIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sparse != MAP_FAILED) {
		mr = ibv_reg_mr(b.pd, sparse, TIB, ALL_ACCESS);
		CHECK(mr && mr->length == TIB);
		post_rdma(&a, IBV_WR_RDMA_WRITE, 5, 0, 6, (uintptr_t)sparse + TIB - 6, mr->rkey);
		expect_wc(a.cq, 5, IBV_WC_SUCCESS);
		CHECK(!strcmp(sparse + TIB - 6, "hello"));
		FAILS_INT(0, ibv_dereg_mr(mr));
		munmap(sparse, TIB);
	}

	// Memory that can only be read: to read it works, and a peer that writes fails, not this process.
	char *only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(only, "constant");
	CHECK(!mprotect(only, 4096, PROT_READ));
	mr = ibv_reg_mr(b.pd, only, 4096, IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	post_rdma(&a, IBV_WR_RDMA_READ, 6, 200, 9, (uintptr_t)only, mr->rkey);
	expect_wc(a.cq, 6, IBV_WC_SUCCESS);
	CHECK(!strcmp(a.buf + 200, "constant"));
	FAILS_INT(0, ibv_dereg_mr(mr));
	mr = ibv_reg_mr(b.pd, only, 4096, ALL_ACCESS);
	if (mr) {
		post_rdma(&a, IBV_WR_RDMA_WRITE, 7, 0, 6, (uintptr_t)only, mr->rkey);
		expect_wc(a.cq, 7, IBV_WC_REM_ACCESS_ERR);
		CHECK(!strcmp(only, "constant"));
		FAILS_INT(0, ibv_dereg_mr(mr));
	}
	end_close(&a);
	end_close(&b);
	return 0;
}
