// A process that posts 300 messages and ends has sent them.
#include "check.h"

#include <sys/wait.h>

#define MESSAGES 300
#define LENGTH 1024

struct name {
	uint32_t qp;
	union ibv_gid gid;
};

static struct ibv_qp *long_qp(struct end *e)
{
	FAILS_INT(0, ibv_destroy_cq(e->cq));
	CHECK(e->cq = ibv_create_cq(e->ctx, 2 * MESSAGES, NULL, NULL, 0));
	struct ibv_qp_init_attr a = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);
	CHECK(qp);
	to_init(qp);
	return qp;
}

// meet connects the queue pair to that of the other process.
static void meet(struct end *e, int from, int to)
{
	struct name mine = {e->qp->qp_num, e->gid}, theirs;
	CHECK(write(to, &mine, sizeof mine) == sizeof mine);
	CHECK(read(from, &theirs, sizeof theirs) == sizeof theirs);
	to_rts(e->qp, theirs.qp, theirs.gid);
	CHECK(write(to, "", 1) == 1);
	char b;
	CHECK(read(from, &b, 1) == 1);
}

static int leave(int from, int to)
{
	static struct end e;
	end_open(&e, 1, MESSAGES * LENGTH);
	e.qp = long_qp(&e);
	for (int i = 0; i < MESSAGES; i++)
		memset(e.buf + i * LENGTH, i, LENGTH);
	meet(&e, from, to);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge s = sge_of(&e, (size_t)i * LENGTH, LENGTH);
		struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
		CHECK(!ibv_post_send(e.qp, &wr, &bad));
	}
	exit(0);
}

int main(void)
{
	static struct end e;
	int to[2], from[2];
	CHECK(!pipe(to) && !pipe(from));
	pid_t child = fork();
	if (!child) {
		close(to[1]);
		return leave(to[0], from[1]);
	}
	end_open(&e, 0, MESSAGES * LENGTH);
	e.qp = long_qp(&e);
	for (int i = 0; i < MESSAGES; i++)
		post_recv(&e, e.qp, (uint64_t)i, (size_t)i * LENGTH, LENGTH);
	meet(&e, from[0], to[1]);
	int status;
	CHECK(waitpid(child, &status, 0) == child && !status);
	// All that left has been taken by the adapter, which needs no program for it: no more comes.
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(e.cq, 1, &wc);
		CHECK(n == 1 && wc.wr_id == (uint64_t)i && wc.status == IBV_WC_SUCCESS, "message %d", i);
		CHECK(e.buf[i * LENGTH] == (char)i && e.buf[(i + 1) * LENGTH - 1] == (char)i);
	}
	return 0;
}
