/* A process ends, in each way that there is. Its peer, which only waits, is told. */
#include "../programs/check.h"
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum way { RETURN, EXIT, QUICK_EXIT, ABORT, TERM, INT, SEGV, KILL, EXEC, FORKED, WAYS };
static const char *names[WAYS] = {"return", "exit", "_exit", "abort", "SIGTERM", "SIGINT", "SIGSEGV", "SIGKILL", "exec", "_exit with a child that goes on"};
static const int signals[WAYS] = {[ABORT] = SIGABRT, [TERM] = SIGTERM, [INT] = SIGINT, [SEGV] = SIGSEGV, [KILL] = SIGKILL, [EXEC] = SIGKILL};

#define RECEIVES 3
#define HANGS_MS 30000 /* 1 s on a machine that has time */

static struct rdma_event_channel *ch;
static volatile sig_atomic_t children;
static void sigchld(int sig) { (void)sig, children++; }

static struct rdma_cm_event *next(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	if (poll(&p, 1, HANGS_MS) != 1) {
		fprintf(stderr, "no %s\n", rdma_event_str(want));
		exit(1);
	}
	OK(rdma_get_cm_event(ch, &e));
	if (e->event != want) {
		fprintf(stderr, "%s (%d), not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(want));
		exit(1);
	}
	return e;
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {1, RECEIVES, 1, 1}, .qp_type = IBV_QPT_RC};
	OK(rdma_create_qp(id, NULL, &a));
}

/* leaver connects, and ends. */
static int leaver(enum way how, int port, int hold)
{
	struct sockaddr_in to = addr("127.0.0.1", port);
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_id *id;
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGCHLD, sigchld);
	OK(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(id, NULL, SA(to), 1000));
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	OK(rdma_resolve_route(id, 1000));
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	add_qp(id);
	OK(rdma_connect(id, &p));
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ESTABLISHED));
	/* Nobody has become a child of the program. */
	FAILS(waitpid(-1, NULL, 0), ECHILD);
	CHECK(!children);
	char b;
	CHECK(read(hold, &b, 1) == 1); /* the peer has seen the connection */
	switch (how) {
	case EXIT:
		exit(0);
	case QUICK_EXIT:
		_exit(0);
	case ABORT:
		abort();
	case EXEC:
		execlp("sleep", "sleep", "1000", NULL);
		break;
	case FORKED: /* only the helper can tell: the child holds the sockets, so the port stays open */
		if (!fork()) {
			CHECK(read(hold, &b, 1) == 0);
			_exit(0);
		}
		_exit(0);
	case SEGV:
		*(volatile int *)(uintptr_t)8 = 1;
		break;
	case RETURN:
		return 0;
	default:
		kill(getpid(), signals[how]);
		pause();
	}
	CHECK(!"it goes on");
	return 1;
}

int main(int argc, char **argv)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	if (argc > 3)
		return leaver(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
	struct sockaddr_in at = addr("127.0.0.1", 0);
	struct rdma_cm_id *l;
	OK(rdma_create_id(ch, &l, NULL, RDMA_PS_TCP));
	OK(rdma_bind_addr(l, SA(at)));
	OK(rdma_listen(l, 1));
	for (int how = 0; how < WAYS; how++) {
		int hold[2];
		OK(pipe(hold));
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			char way[8], port[8], fd[8];
			snprintf(way, sizeof way, "%d", how);
			snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(l)));
			snprintf(fd, sizeof fd, "%d", hold[0]);
			close(hold[1]);
			setenv("GOROCE_ADDR", "127.0.0.2", 1);
			execl(argv[0], argv[0], way, port, fd, NULL);
			_exit(127);
		}
		close(hold[0]);
		struct rdma_cm_event *e = next(RDMA_CM_EVENT_CONNECT_REQUEST);
		struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
		struct rdma_cm_id *id = e->id;
		rdma_ack_cm_event(e);
		add_qp(id);
		for (int i = 0; i < RECEIVES; i++) {
			struct ibv_recv_wr wr = {.wr_id = i}, *bad;
			OK(ibv_post_recv(id->qp, &wr, &bad));
		}
		OK(rdma_accept(id, &p));
		rdma_ack_cm_event(next(RDMA_CM_EVENT_ESTABLISHED));
		struct timespec from, to;
		clock_gettime(CLOCK_MONOTONIC, &from);
		CHECK(write(hold[1], "", 1) == 1);
		e = next(RDMA_CM_EVENT_DISCONNECTED);
		CHECK(e->status == 0 || e->status == -ETIMEDOUT); /* told, or found out on a busy machine */
		rdma_ack_cm_event(e);
		clock_gettime(CLOCK_MONOTONIC, &to);
		if (argc > 1)
			printf("%-32s %6.1f ms\n", names[how], (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6);
		OK(rdma_disconnect(id)); /* as programs do, for the event alone flushes nothing on a kernel, either */
		struct ibv_wc wc[RECEIVES];
		int n = 0;
		while (n < RECEIVES)
			n += ibv_poll_cq(id->recv_cq, RECEIVES - n, wc + n);
		for (int i = 0; i < RECEIVES; i++)
			CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR && wc[i].wr_id == (uint64_t)i);
		if (how == EXEC)
			kill(child, SIGKILL);
		close(hold[1]);
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		if (signals[how] ? !WIFSIGNALED(status) || WTERMSIG(status) != signals[how] : status) {
			fprintf(stderr, "%s: status %#x\n", names[how], status);
			return 1;
		}
		rdma_destroy_qp(id);
		OK(rdma_destroy_id(id));
	}
	return 0;
}
