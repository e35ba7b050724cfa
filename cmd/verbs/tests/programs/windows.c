// Memory windows of both types, bound with the rights that programs pass on from the region: those of the owner count for
// nothing. What a window no longer grants is refused.
#include "check.h"

static const unsigned int grants = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_WRITE;

// bound returns a region without remote rights, for a window.
static struct ibv_mr *region(struct end *e)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, e->buf, e->size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	return mr;
}

static void writes(struct end *from, struct end *to, uint32_t rkey, enum ibv_wc_status want)
{
	memset(to->buf, 0, 16);
	strcpy(from->buf + 64, "through it");
	post_rdma(from, IBV_WR_RDMA_WRITE, 5, 64, 11, (uintptr_t)to->buf, rkey);
	expect_wc(from->cq, 5, want);
	CHECK(!strcmp(to->buf, want == IBV_WC_SUCCESS ? "through it" : ""));
}

static void type_1(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_mr *mr = region(&b);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	CHECK(mw);
	struct ibv_mw_bind bind = {
		.wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = mr, .addr = (uintptr_t)b.buf, .length = 64, .mw_access_flags = grants},
	};
	CHECK(!ibv_bind_mw(b.qp, mw, &bind));
	expect_wc(b.cq, 3, IBV_WC_SUCCESS);
	writes(&a, &b, mw->rkey, IBV_WC_SUCCESS);
	bind.bind_info.length = 0; // takes it all back
	CHECK(!ibv_bind_mw(b.qp, mw, &bind));
	expect_wc(b.cq, 3, IBV_WC_SUCCESS);
	writes(&a, &b, mw->rkey, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(mr));
	end_close(&a);
	end_close(&b);
}

// type_2 binds a window of type 2 with these rights, writes, and, if invalidate, writes again when it is bound no more.
static void type_2(unsigned int access, enum ibv_wc_status want, bool invalidate)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_mr *mr = region(&b);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	CHECK(mw);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = {
		.wr_id = 3, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw, .rkey = key, .bind_info = {.mr = mr, .addr = (uintptr_t)b.buf, .length = 64, .mw_access_flags = access}},
	}, *bad;
	CHECK(!ibv_post_send(b.qp, &wr, &bad));
	expect_wc(b.cq, 3, IBV_WC_SUCCESS);
	writes(&a, &b, key, want);
	if (invalidate) {
		wr = (struct ibv_send_wr){.wr_id = 4, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};
		CHECK(!ibv_post_send(b.qp, &wr, &bad));
		expect_wc(b.cq, 4, IBV_WC_SUCCESS);
		writes(&a, &b, key, IBV_WC_REM_ACCESS_ERR);
	}
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(mr));
	end_close(&a);
	end_close(&b);
}

// low_byte binds with a key of which only the low byte is the window's: the rest belongs to the device.
static void low_byte(void)
{
	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_mr *mr = region(&b);
	struct ibv_mw *mw[2];
	for (int i = 0; i < 2; i++) {
		mw[i] = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
		CHECK(mw[i]);
		struct ibv_send_wr wr = {
			.wr_id = 3, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
			.bind_mw = {.mw = mw[i], .rkey = 0x7BA, .bind_info = {.mr = mr, .addr = (uintptr_t)b.buf, .length = 64, .mw_access_flags = grants}},
		}, *bad;
		CHECK(!ibv_post_send(b.qp, &wr, &bad));
		expect_wc(b.cq, 3, IBV_WC_SUCCESS);
		writes(&a, &b, (mw[i]->rkey & ~0xFFu) | 0xBA, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_dealloc_mw(mw[0]) && !ibv_dealloc_mw(mw[1]));
	CHECK(!ibv_dereg_mr(mr));
	end_close(&a);
	end_close(&b);
}

int main(void)
{
	type_1();
	type_2(grants, IBV_WC_SUCCESS, true);
	type_2(IBV_ACCESS_LOCAL_WRITE, IBV_WC_REM_ACCESS_ERR, false);
	low_byte();
	return 0;
}
