// What a process has made before it becomes a daemon is its child's: memory with its keys, queues, queue pairs without a peer, and
// descriptors in a set of epoll. The parent goes, or stays and uses the same things, each its own.
#include "check.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MEMORY 8192
#define COUNT 8

struct made {
	struct end a, b;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; // of b's side
	struct ibv_srq *srq;
	struct ibv_qp *reset, *init, *with_srq, *ud_a, *ud_b;
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	uint32_t lkey, rkey;
	int set;
};

static struct ibv_qp *new_qp(struct end *e, struct ibv_cq *recv, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->cq, .recv_cq = recv, .srq = srq, .qp_type = type, .sq_sig_all = 1,
		.cap = {.max_send_wr = COUNT, .max_recv_wr = COUNT, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &a);
	CHECK(qp);
	return qp;
}

#define QKEY 0x1234
static struct ibv_qp *new_ud(struct end *e, struct ibv_cq *recv)
{
	struct ibv_qp *qp = new_qp(e, recv, IBV_QPT_UD, NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	FAILS_INT(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	FAILS_INT(0, ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	FAILS_INT(0, ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static void make(struct made *m)
{
	end_open(&m->a, 0, MEMORY);
	end_open(&m->b, 1, MEMORY);
	CHECK(m->channel = ibv_create_comp_channel(m->b.ctx));
	CHECK(m->cq = ibv_create_cq(m->b.ctx, 2 * COUNT, m, m->channel, 0));
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = COUNT, .max_sge = 1}};
	CHECK(m->srq = ibv_create_srq(m->b.pd, &sa));
	m->reset = new_qp(&m->a, m->a.cq, IBV_QPT_RC, NULL);
	m->init = new_qp(&m->b, m->cq, IBV_QPT_RC, NULL);
	to_init(m->init);
	m->with_srq = new_qp(&m->b, m->cq, IBV_QPT_RC, m->srq);
	m->ud_a = new_ud(&m->a, m->a.cq);
	m->ud_b = new_ud(&m->b, m->cq);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.dgid = m->b.gid, .hop_limit = 64}};
	CHECK(m->ah = ibv_create_ah(m->a.pd, &ah));
	CHECK(m->mw = ibv_alloc_mw(m->b.pd, IBV_MW_TYPE_1));
	m->lkey = m->b.mr->lkey;
	m->rkey = m->b.mr->rkey;
	m->set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 7};
	CHECK(m->set >= 0 && !epoll_ctl(m->set, EPOLL_CTL_ADD, m->channel->fd, &e));
}

static void wait_event(struct made *m, bool set)
{
	struct epoll_event e;
	struct pollfd p = {.fd = m->channel->fd, .events = POLLIN};
	if (set)
		CHECK(epoll_wait(m->set, &e, 1, 20000) == 1 && e.data.u32 == 7);
	CHECK(poll(&p, 1, 20000) == 1);
	struct ibv_cq *cq;
	void *context;
	FAILS_INT(0, ibv_get_cq_event(m->channel, &cq, &context));
	CHECK(cq == m->cq && context == m);
	ibv_ack_cq_events(cq, 1);
}

// use does what the objects are for.
static void use(struct made *m, bool set)
{
	memset(m->a.buf, 'x', MEMORY);
	CHECK(m->b.mr->lkey == m->lkey && m->b.mr->rkey == m->rkey);
	to_init(m->reset);
	FAILS_INT(0, ibv_req_notify_cq(m->cq, 0));
	post_recv(&m->b, m->init, 3, 0, 64);
	to_rts(m->reset, m->init->qp_num, m->b.gid);
	to_rts(m->init, m->reset->qp_num, m->a.gid);
	m->a.qp = m->reset;
	post_send(&m->a, 4, 0, 64);
	expect_wc(m->a.cq, 4, IBV_WC_SUCCESS);
	wait_event(m, set);
	expect_wc(m->cq, 3, IBV_WC_SUCCESS);
	CHECK(m->b.buf[0] == 'x' && m->b.buf[63] == 'x' && m->b.buf[64] != 'x');
	// The key that a peer was told is that of the memory still.
	post_rdma(&m->a, IBV_WR_RDMA_WRITE, 5, 0, 64, (uintptr_t)m->b.buf + 128, m->rkey);
	expect_wc(m->a.cq, 5, IBV_WC_SUCCESS);
	CHECK(m->b.buf[128] == 'x');
	// Datagrams, by the address handle.
	post_recv(&m->b, m->ud_b, 6, 256, 512);
	struct ibv_sge s = sge_of(&m->a, 0, 16);
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .wr.ud = {.ah = m->ah, .remote_qpn = m->ud_b->qp_num, .remote_qkey = QKEY}}, *bad;
	FAILS_INT(0, ibv_post_send(m->ud_a, &wr, &bad));
	expect_wc(m->a.cq, 7, IBV_WC_SUCCESS);
	expect_wc(m->cq, 6, IBV_WC_SUCCESS);
	struct ibv_srq_attr attr;
	FAILS_INT(0, ibv_query_srq(m->srq, &attr));
	CHECK(attr.max_wr >= COUNT);
}

static void end(struct made *m)
{
	FAILS_INT(0, ibv_dealloc_mw(m->mw));
	FAILS_INT(0, ibv_destroy_ah(m->ah));
	struct ibv_qp *all[] = {m->reset, m->init, m->with_srq, m->ud_a, m->ud_b};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		FAILS_INT(0, ibv_destroy_qp(all[i]));
	m->a.qp = NULL;
	FAILS_INT(0, ibv_destroy_srq(m->srq));
	FAILS_INT(0, ibv_destroy_cq(m->cq));
	FAILS_INT(0, ibv_destroy_comp_channel(m->channel));
	end_close(&m->a);
	end_close(&m->b);
	close(m->set);
}

// daemon_works has a process make all, fork, once or twice, and end, and its child use what it has made.
static void daemon_works(int forks)
{
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
	pid_t p = fork();
	CHECK(p >= 0);
	int status;
	if (!p) {
		CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 0));
		static struct made m;
		int gone[2];
		char b;
		CHECK(!pipe(gone));
		make(&m);
		for (int i = 0; i < forks; i++)
			if (fork())
				_exit(0);
		close(gone[1]);
		CHECK(read(gone[0], &b, 1) == 0);
		use(&m, true);
		end(&m);
		exit(5);
	}
	CHECK(waitpid(p, &status, 0) == p && !status);
	CHECK((p = waitpid(-1, &status, 0)) > 0);
	if (forks > 1 && WIFEXITED(status) && !WEXITSTATUS(status))
		CHECK(waitpid(-1, &status, 0) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %x", status);
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 0));
}

int main(void)
{
	daemon_works(1);
	daemon_works(2);
	static struct made m;
	make(&m);
	pid_t p = fork();
	if (!p) { // beside the parent, of which it has a copy
		use(&m, false);
		if (!(p = fork())) { // what the child has had is the grandchild's
			FAILS_INT(0, ibv_destroy_qp(m.reset));
			FAILS_INT(0, ibv_destroy_qp(m.init));
			m.reset = new_qp(&m.a, m.a.cq, IBV_QPT_RC, NULL);
			m.init = new_qp(&m.b, m.cq, IBV_QPT_RC, NULL);
			to_init(m.init);
			use(&m, false);
			end(&m);
			exit(6);
		}
		int status;
		CHECK(waitpid(p, &status, 0) == p);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 6, "status %x", status);
		end(&m);
		exit(5);
	}
	int status;
	CHECK(waitpid(p, &status, 0) == p);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %x", status);
	if (!(p = fork())) { // who only clears up opens nothing
		end(&m);
		exit(5);
	}
	CHECK(waitpid(p, &status, 0) == p);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %x", status);
	use(&m, true);
	end(&m);
	return 0;
}
