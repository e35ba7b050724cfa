// Which requests wait in the ring of their send queue, by their length. The ring is the library's own: no program can tell.
#include "../../libibverbs/shim.h"
#include "check.h"

#define BYTES (1 << 16) // of the buffers
#define ENOUGH (256 << 10)

static struct end a, b;
static struct goroce_send_ring *ring;

static bool is_open(void) { return __atomic_load_n(&ring->open, __ATOMIC_ACQUIRE); }
static uint64_t waiting(void) { return ring->tail - __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE); }

// run posts many without a poll, and waits until all have arrived.
static void run(uint32_t length)
{
	static unsigned char value;
	memset(a.buf, ++value, BYTES);
	struct ibv_sge s = sge_of(&a, 0, length);
	for (int n = 1; n <= 60; n++) {
		struct ibv_send_wr wr = {.wr_id = (uint64_t)n, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = n < 60 ? 0 : IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)b.buf, b.mr->rkey}}, *bad;
		CHECK(!ibv_post_send(a.qp, &wr, &bad));
		CHECK(waiting() * length < ENOUGH, "%lu wait", (unsigned long)waiting());
	}
	expect_wc(a.cq, 60, IBV_WC_SUCCESS);
	CHECK(!memcmp(a.buf, b.buf, length));
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, BYTES);
	CHECK(ring = to_qp(a.qp)->ring);
	// Those that fill a datagram leave by themselves, and nobody looks after a ring in which nothing is put.
	for (int round = 0; round < 4; round++) {
		run(BYTES);
		CHECK(!is_open() && !ring->tail);
	}
	// Those of which several share one wait for each other, but not for more than some datagrams full.
	while (!ring->tail)
		run(4096);
	for (uint64_t seen = ring->tail; ring->tail == seen;)
		run(32768);
	end_close(&a);
	end_close(&b);
	return 0;
}
