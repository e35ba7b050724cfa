// Memory that the program takes away while it is registered: the queue pair that meets it fails, the process does not.
#include "check.h"

#include <sys/mman.h>

int main(void)
{
	for (int op = 0; op < 3; op++) {
		struct end a, b;
		pair_open(&a, &b, IBV_QPT_RC, 1 << 16);
		size_t size = 1 << 20;
		char *t = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(t != MAP_FAILED);
		struct ibv_mr *mr = ibv_reg_mr(b.pd, t, size, ALL_ACCESS);
		CHECK(mr);
		strcpy(a.buf, "hello");
		post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 1 << 16, (uintptr_t)t, mr->rkey);
		expect_wc(a.cq, 1, IBV_WC_SUCCESS);
		CHECK(!strcmp(t, "hello"));
		take_away(t, size);
		switch (op) {
		case 0: // a peer writes
			post_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, 1 << 16, (uintptr_t)t, mr->rkey);
			expect_wc(a.cq, 2, IBV_WC_REM_ACCESS_ERR);
			break;
		case 1: // a peer reads
			post_rdma(&a, IBV_WR_RDMA_READ, 2, 0, 1 << 16, (uintptr_t)t, mr->rkey);
			expect_wc(a.cq, 2, IBV_WC_REM_ACCESS_ERR);
			break;
		case 2: { // this side sends
			struct ibv_sge s = {.addr = (uintptr_t)t, .length = 4096, .lkey = mr->lkey};
			struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
			post_recv(&a, a.qp, 3, 0, 4096);
			CHECK(!ibv_post_send(b.qp, &wr, &bad));
			expect_wc(b.cq, 2, IBV_WC_LOC_PROT_ERR);
		}
		}
		FAILS_INT(0, ibv_dereg_mr(mr));
		end_close(&a);
		end_close(&b);
	}
	return 0;
}
