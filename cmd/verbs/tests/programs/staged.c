// Requests that follow each other without a poll, which the library keeps for a while: nobody can tell.
#include "check.h"

#define QUEUE 64 // of end_qp

static struct end a, b;

static struct ibv_send_wr write_of(struct ibv_sge *s, uint64_t id, size_t at)
{
	return (struct ibv_send_wr){.wr_id = id, .sg_list = s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {(uintptr_t)b.buf + at, b.mr->rkey}};
}

// number writes a number, which is gone when the call returns.
static int number(struct ibv_qp *qp, uint64_t n, size_t at, unsigned int flags)
{
	uint64_t value = n;
	struct ibv_sge s = {(uintptr_t)&value, sizeof value, 0};
	struct ibv_send_wr wr = write_of(&s, n, at), *bad;
	wr.send_flags = IBV_SEND_INLINE | flags;
	return ibv_post_send(qp, &wr, &bad);
}

static uint64_t read_number(size_t at) { return __atomic_load_n((uint64_t *)(b.buf + at), __ATOMIC_ACQUIRE); }

// The last of many is what the peer has, and completions come in order. The queue is never over-full.
static void in_order(void)
{
	uint64_t n = 0, done = 0;
	for (int round = 0; round < 200; round++) {
		while (n - done < QUEUE) {
			n++;
			CHECK(!number(a.qp, n, 0, n % 32 ? 0 : IBV_SEND_SIGNALED));
		}
		done += 32;
		expect_wc(a.cq, done, IBV_WC_SUCCESS);
		CHECK(read_number(0) >= done);
	}
	done += 32;
	expect_wc(a.cq, done, IBV_WC_SUCCESS);
	CHECK(done == n && read_number(0) == n);
}

// So are lists, whether they fit the library's store or not. Of one that finds the queue full the first ones are posted.
static void lists(int length)
{
	uint64_t values[QUEUE + 1];
	struct ibv_sge s[QUEUE + 1];
	struct ibv_send_wr wr[QUEUE + 2], *bad;
	uint64_t n = 0, done = 0;
	for (int round = 0; round < 200; round++) {
		for (int e = 0; !e && n - done <= 2 * QUEUE;) {
			for (int i = 0; i < length; i++) {
				values[i] = n + (uint64_t)i + 1;
				s[i] = (struct ibv_sge){(uintptr_t)&values[i], sizeof values[i], 0};
				wr[i] = write_of(&s[i], values[i], 48);
				wr[i].send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
				wr[i].next = i + 1 < length ? &wr[i + 1] : NULL;
			}
			bad = &wr[length];
			e = ibv_post_send(a.qp, wr, &bad);
			CHECK(e ? e == ENOMEM && bad >= wr && bad < &wr[length] : bad == &wr[length], "errno %d of %d", e, length);
			n += (uint64_t)(bad - wr);
		}
		for (int i = 0; i < 40 && done < n; i++)
			expect_wc(a.cq, ++done, IBV_WC_SUCCESS);
		CHECK(read_number(48) >= done);
	}
	while (done < n)
		expect_wc(a.cq, ++done, IBV_WC_SUCCESS);
	CHECK(read_number(48) == n);
}

// Who polls nothing but memory finds it there, and a single request later, too.
static void without_polls(void)
{
	for (uint64_t n = 1; n <= 20; n++)
		CHECK(!number(a.qp, n, 8, n < 20 ? 0 : IBV_SEND_SIGNALED));
	while (read_number(8) != 20)
		;
	expect_wc(a.cq, 20, IBV_WC_SUCCESS);
	for (uint64_t n = 21; n <= 40; n++) {
		CHECK(!number(a.qp, n, 8, n < 40 ? 0 : IBV_SEND_SIGNALED));
		while (read_number(8) != n)
			;
	}
	expect_wc(a.cq, 40, IBV_WC_SUCCESS);
}

// One thread posts and another sleeps until there is an event.
static void with_events(void)
{
	CHECK(!ibv_req_notify_cq(a.cq, 0));
	for (uint64_t n = 1; n <= 30; n++)
		CHECK(!number(a.qp, n, 16, n < 30 ? 0 : IBV_SEND_SIGNALED));
	struct ibv_cq *cq;
	void *context;
	CHECK(!ibv_get_cq_event(a.channel, &cq, &context) && cq == a.cq);
	ibv_ack_cq_events(cq, 1);
	expect_wc(a.cq, 30, IBV_WC_SUCCESS);
	CHECK(read_number(16) == 30);
}

// Requests of all kinds, of which some go past the ring, stay in order.
static void of_all_kinds(void)
{
	struct ibv_send_wr *bad;
	uint64_t *word = (uint64_t *)(b.buf + 64), *old = (uint64_t *)(a.buf + 64);
	struct ibv_sge s = sge_of(&a, 64, 8), whole = sge_of(&a, 0, 40960);
	for (uint64_t n = 1; n <= 12; n++)
		CHECK(!number(a.qp, n, 64, 0));
	struct ibv_send_wr add = {.wr_id = 100, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = {(uintptr_t)word, 1000, 0, b.mr->rkey}};
	CHECK(!ibv_post_send(a.qp, &add, &bad));
	CHECK(!number(a.qp, 5, 72, 0));
	struct ibv_send_wr large = write_of(&whole, 101, 4096);
	CHECK(!ibv_post_send(a.qp, &large, &bad));
	struct ibv_sge to = sge_of(&a, 80, 16);
	struct ibv_send_wr read = {.wr_id = 102, .sg_list = &to, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				   .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)word, b.mr->rkey}};
	CHECK(!ibv_post_send(a.qp, &read, &bad));
	expect_wc(a.cq, 102, IBV_WC_SUCCESS);
	CHECK(*old == 12 && *word == 1012 && *(uint64_t *)(a.buf + 80) == 1012 && *(uint64_t *)(a.buf + 88) == 5);
}

// What is wrong is told by the call, and all before it is posted.
static void refused(void)
{
	struct ibv_sge list[100] = {{0}};
	struct ibv_send_wr *bad, wr = {.wr_id = 1, .sg_list = list, .num_sge = 100, .opcode = IBV_WR_RDMA_WRITE};
	for (uint64_t n = 1; n <= 12; n++)
		CHECK(!number(a.qp, n, 24, 0));
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);
	wr.num_sge = 0;
	wr.opcode = IBV_WR_TSO;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, &wr, &bad));
	char much[4096];
	list[0] = (struct ibv_sge){(uintptr_t)much, sizeof much, 0};
	wr = (struct ibv_send_wr){.wr_id = 2, .sg_list = list, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
	CHECK(ibv_post_send(a.qp, &wr, &bad) && bad == &wr);
	// A list of which the second is wrong.
	struct ibv_sge s = sge_of(&a, 0, 8);
	struct ibv_send_wr two[2] = {write_of(&s, 3, 32), write_of(&s, 4, 32)};
	two[0].next = &two[1];
	two[1].num_sge = -1;
	FAILS_INT(EINVAL, ibv_post_send(a.qp, two, &bad));
	CHECK(bad == &two[1]);
	CHECK(!number(a.qp, 13, 24, IBV_SEND_SIGNALED));
	expect_wc(a.cq, 13, IBV_WC_SUCCESS);
	CHECK(read_number(24) == 13);
}

// A queue whose peer does not answer takes as many as it has places for, and not one more. All of them are flushed.
static void full(void)
{
	struct ibv_qp *qp = end_qp(&a, IBV_QPT_RC, NULL), *deaf = end_qp(&b, IBV_QPT_RC, NULL);
	to_init(qp);
	to_rts_with(qp, deaf->qp_num, b.gid, 0); // it waits for ever
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	int room = (int)init.cap.max_send_wr, n = 0, e;
	while (!(e = number(qp, (uint64_t)n + 1, 40, IBV_SEND_SIGNALED)))
		CHECK(++n <= room);
	FAILS_INT(ENOMEM, e);
	CHECK(n == room, "%d of %d", n, room);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(qp, &err, IBV_QP_STATE));
	for (int i = 1; i <= n; i++)
		expect_wc(a.cq, (uint64_t)i, IBV_WC_WR_FLUSH_ERR);
	CHECK(!number(qp, 1000, 40, 0));
	expect_wc(a.cq, 1000, IBV_WC_WR_FLUSH_ERR);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	CHECK(number(qp, 1, 40, 0) == EINVAL);
	FAILS_INT(0, ibv_destroy_qp(qp));
	FAILS_INT(0, ibv_destroy_qp(deaf));
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 65536);
	in_order();
	for (int length = 1; length <= QUEUE + 1; length += 8)
		lists(length);
	without_polls();
	with_events();
	of_all_kinds();
	refused();
	full();
	end_close(&a);
	end_close(&b);
	return 0;
}
