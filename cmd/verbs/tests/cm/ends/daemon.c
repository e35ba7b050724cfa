/* A server that listens, becomes a daemon, and serves: its parent ends, before the daemon calls anything or after. By rdma_cm, in a set of epoll and by
 * blocking calls, and by rsockets. */
#include "../programs/check.h"
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum how { SET, BLOCKS, EARLY, STREAM, WAYS }; /* EARLY: the daemon calls while its parent is there */

static struct rdma_event_channel *ch;
static struct rdma_cm_id *l;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char buf[64];
static int set, sock;

static void make(enum how how, int told)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	if (how == STREAM) {
		CHECK((sock = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
		OK(rbind(sock, SA(at), sizeof at));
		OK(rlisten(sock, 4));
		OK(rgetsockname(sock, SA(at), &len));
	} else {
		CHECK(ch = rdma_create_event_channel());
		OK(rdma_create_id(ch, &l, &l, RDMA_PS_TCP));
		OK(rdma_bind_addr(l, SA(at)));
		OK(rdma_listen(l, 4));
		at.sin_port = rdma_get_src_port(l);
		CHECK(pd = ibv_alloc_pd(l->verbs));
		CHECK(mr = ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE));
		CHECK((set = epoll_create1(EPOLL_CLOEXEC)) >= 0);
		struct epoll_event e = {.events = EPOLLIN};
		OK(epoll_ctl(set, EPOLL_CTL_ADD, ch->fd, &e));
	}
	CHECK(write(told, &at.sin_port, sizeof at.sin_port) == sizeof at.sin_port);
}

static struct rdma_cm_event *next(enum how how, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	if (how == SET) { /* does not block, as a server that waits for several things */
		struct epoll_event got;
		OK(fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK));
		while (rdma_get_cm_event(ch, &e)) {
			CHECK(errno == EAGAIN);
			CHECK(epoll_wait(set, &got, 1, -1) == 1);
		}
	} else {
		OK(rdma_get_cm_event(ch, &e));
	}
	CHECK(e->event == want);
	return e;
}

static void add_qp(struct rdma_cm_id *id, struct ibv_pd *in)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1}, .qp_type = IBV_QPT_RC};
	OK(rdma_create_qp(id, in, &a));
}

static void serve(enum how how)
{
	if (how == STREAM) {
		int fd = raccept(sock, NULL, NULL);
		CHECK(fd >= 0);
		CHECK(rrecv(fd, buf, 5, MSG_WAITALL) == 5 && !memcmp(buf, "hello", 5));
		CHECK(rsend(fd, "world", 5, 0) == 5);
		OK(rclose(fd));
		OK(rclose(sock));
		return;
	}
	if (how == SET) { /* nothing is called before there is something to do */
		struct epoll_event got;
		CHECK(epoll_wait(set, &got, 1, -1) == 1);
	}
	struct rdma_cm_event *e = next(how, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(e->listen_id == l && e->id->context == &l);
	struct rdma_cm_id *id = e->id;
	rdma_ack_cm_event(e);
	add_qp(id, pd);
	struct ibv_sge s = {.addr = (uintptr_t)buf, .length = sizeof buf, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &s, .num_sge = 1}, *bad;
	OK(ibv_post_recv(id->qp, &wr, &bad));
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	OK(rdma_accept(id, &p));
	rdma_ack_cm_event(next(how, RDMA_CM_EVENT_ESTABLISHED));
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(id->recv_cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && !memcmp(buf, "hello", 5));
	rdma_ack_cm_event(next(how, RDMA_CM_EVENT_DISCONNECTED));
	OK(rdma_disconnect(id));
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));
	OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
	OK(ibv_dereg_mr(mr));
	OK(ibv_dealloc_pd(pd));
}

static void call(enum how how, uint16_t port)
{
	struct sockaddr_in to = addr("127.0.0.1", ntohs(port));
	char b[5];
	if (how == STREAM) {
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0);
		while (rconnect(fd, SA(to), sizeof to)) /* nobody listens before the parent has gone */
			CHECK(errno == ECONNREFUSED);
		CHECK(rsend(fd, "hello", 5, 0) == 5);
		CHECK(rrecv(fd, b, 5, MSG_WAITALL) == 5 && !memcmp(b, "world", 5));
		OK(rclose(fd));
		return;
	}
	for (;;) {
		struct rdma_cm_id *id;
		OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
		OK(rdma_resolve_addr(id, NULL, SA(to), 1000));
		OK(rdma_resolve_route(id, 1000));
		add_qp(id, NULL);
		struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
		if (rdma_connect(id, &p)) {
			CHECK(errno == ECONNREFUSED);
			rdma_destroy_ep(id);
			continue;
		}
		struct ibv_mr *m = ibv_reg_mr(id->pd, buf, sizeof buf, 0);
		CHECK(m);
		memcpy(buf, "hello", 5);
		struct ibv_sge s = {.addr = (uintptr_t)buf, .length = 5, .lkey = m->lkey};
		struct ibv_send_wr wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
		OK(ibv_post_send(id->qp, &wr, &bad));
		struct ibv_wc wc;
		while (!ibv_poll_cq(id->send_cq, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
		OK(rdma_disconnect(id));
		OK(ibv_dereg_mr(m));
		rdma_destroy_ep(id);
		return;
	}
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		call(atoi(argv[1]), (uint16_t)atoi(argv[2]));
		return 0;
	}
	for (int how = 0; how < WAYS; how++) {
		int told[2], called[2], status;
		char b;
		uint16_t port;
		OK(pipe(told));
		OK(pipe(called));
		OK(prctl(PR_SET_CHILD_SUBREAPER, 1));
		pid_t parent = fork();
		if (!parent) {
			make(how, told[1]);
			pid_t child = fork();
			if (!child) {
				if (how == EARLY) {
					CHECK(ibv_alloc_pd(l->verbs));
					CHECK(write(called[1], "", 1) == 1);
				}
				serve(how);
				exit(5);
			}
			if (how == EARLY)
				CHECK(read(called[0], &b, 1) == 1);
			_exit(0);
		}
		CHECK(read(told[0], &port, sizeof port) == sizeof port);
		pid_t client = fork();
		if (!client) {
			char way[8], text[8];
			snprintf(way, sizeof way, "%d", how);
			snprintf(text, sizeof text, "%u", port);
			setenv("GOROCE_ADDR", "127.0.0.2", 1);
			execl(argv[0], argv[0], way, text, NULL);
			_exit(127);
		}
		CHECK(waitpid(parent, &status, 0) == parent && !status);
		CHECK(waitpid(client, &status, 0) == client);
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
		do /* helpers of processes that have ended are adopted here, too */
			CHECK(waitpid(-1, &status, 0) > 0);
		while (WIFEXITED(status) && !WEXITSTATUS(status));
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
		OK(prctl(PR_SET_CHILD_SUBREAPER, 0));
		for (int i = 0; i < 2; i++)
			close(told[i]), close(called[i]);
	}
	return 0;
}
