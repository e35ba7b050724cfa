// Events: descriptors that poll, select and epoll can wait for, events that have to be acknowledged, and what is left
// of an object that ends.
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static struct end a, b;

static bool readable(int fd) { return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1; }

static void wait_epoll(int fd)
{
	int ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN};
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	while (epoll_wait(ep, &e, 1, -1) != 1)
		CHECK(errno == EINTR);
	close(ep);
}

static void wait_select(int fd)
{
	fd_set s;
	FD_ZERO(&s);
	FD_SET(fd, &s);
	CHECK(select(fd + 1, &s, NULL, NULL, NULL) == 1);
}

static void take_event(struct end *e)
{
	struct ibv_cq *cq;
	void *context;
	FAILS_INT(0, ibv_get_cq_event(e->channel, &cq, &context));
	CHECK(cq == e->cq && context == e);
}

static bool acknowledged;
static void *acknowledge(void *arg)
{
	__atomic_store_n(&acknowledged, true, __ATOMIC_SEQ_CST);
	ibv_ack_cq_events(arg, 3);
	return NULL;
}

static void message(bool solicited)
{
	post_recv(&b, b.qp, 1, 0, 64);
	struct ibv_sge s = sge_of(&a, 64, 64);
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)}, *bad;
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
}

static int handled;
static void handles(int sig)
{
	CHECK(sig != SIGALRM, "the call has slept");
	__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *sends_then(void *arg)
{
	while (!__atomic_load_n(&handled, __ATOMIC_SEQ_CST))
		sched_yield();
	message(false);
	return arg;
}

// interrupt has a signal come while ibv_get_cq_event looks for packets: it waits, blocked, as one does that comes in a call of the Go half,
// until the first of those is over.
static void interrupt(int flags)
{
	static const char *const name = "goroce_busy"; // of the library, for each thread
	volatile int *busy = dlsym(RTLD_DEFAULT, name);
	CHECK(busy, "no %s", name);
	struct sigaction h = {.sa_handler = handles, .sa_flags = flags};
	CHECK(!sigaction(SIGUSR1, &h, NULL) && !sigaction(SIGALRM, &h, NULL));
	handled = 0;
	*busy = 1;
	CHECK(!raise(SIGUSR1));
	*busy = 0;
	CHECK(!handled, "it did not wait");
}

static void interrupted(void)
{
	struct ibv_cq *cq;
	void *context;
	interrupt(0);
	alarm(10);
	CHECK(ibv_get_cq_event(b.channel, &cq, &context) == -1 && errno == EINTR && handled == 1);
	alarm(0);
	// An event that is there comes first.
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	message(false);
	interrupt(0);
	take_event(&b);
	CHECK(handled == 1);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	ibv_ack_cq_events(b.cq, 1);
	// The call goes on after a handler with SA_RESTART.
	pthread_t t;
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	interrupt(SA_RESTART);
	CHECK(!pthread_create(&t, NULL, sends_then, NULL));
	take_event(&b);
	CHECK(!pthread_join(t, NULL) && handled == 1);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	ibv_ack_cq_events(b.cq, 1);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	struct ibv_cq *cq;
	void *context;

	// Nothing is there: a descriptor that does not block says so.
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK));
	FAILS_INT(-1, ibv_get_cq_event(b.channel, &cq, &context));
	CHECK(errno == EAGAIN);
	CHECK(!fcntl(b.ctx->async_fd, F_SETFL, fcntl(b.ctx->async_fd, F_GETFL) | O_NONBLOCK));
	struct ibv_async_event ae;
	FAILS_INT(-1, ibv_get_async_event(b.ctx, &ae));
	CHECK(errno == EAGAIN);

	// One event for each request, whichever thread waits.
	message(false);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	CHECK(!readable(b.channel->fd), "nobody has asked");
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	message(false);
	wait_epoll(b.channel->fd);
	take_event(&b);
	CHECK(!readable(b.channel->fd), "it was taken");
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	message(false);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	CHECK(!readable(b.channel->fd), "one request is one event");

	// Only for what is solicited.
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 1));
	message(false);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	CHECK(!readable(b.channel->fd), "not solicited");
	message(true);
	wait_select(b.channel->fd);
	take_event(&b);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);

	// A call that blocks.
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) & ~O_NONBLOCK));
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	message(false);
	take_event(&b);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);

	interrupted();

	// Channels that are in use, and queues with events that were not acknowledged.
	FAILS_INT(EBUSY, ibv_destroy_comp_channel(b.channel));
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	message(false);
	wait_epoll(b.channel->fd); // an event that nobody takes
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	FAILS_INT(EBUSY, ibv_destroy_cq(b.cq));

	// Asynchronous events: the peer asks for memory that there is not.
	CHECK(!fcntl(b.ctx->async_fd, F_SETFL, fcntl(b.ctx->async_fd, F_GETFL) & ~O_NONBLOCK));
	post_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 8, 0, 1);
	expect_wc(a.cq, 3, IBV_WC_REM_ACCESS_ERR);
	wait_epoll(b.ctx->async_fd);
	FAILS_INT(0, ibv_get_async_event(b.ctx, &ae));
	CHECK(ae.event_type == IBV_EVENT_QP_ACCESS_ERR, "%s", ibv_event_type_str(ae.event_type));
	CHECK(ae.element.qp == b.qp);
	ibv_ack_async_event(&ae);
	FAILS_INT(0, ibv_modify_qp(b.qp, &err, IBV_QP_STATE));

	// ibv_destroy_cq waits for who has taken events.
	FAILS_INT(0, ibv_destroy_qp(b.qp));
	b.qp = NULL;
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, acknowledge, b.cq));
	FAILS_INT(0, ibv_destroy_cq(b.cq));
	CHECK(__atomic_load_n(&acknowledged, __ATOMIC_SEQ_CST), "it did not wait");
	CHECK(!pthread_join(t, NULL));
	FAILS_INT(0, ibv_destroy_comp_channel(b.channel));
	return 0;
}
