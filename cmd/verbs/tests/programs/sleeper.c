// A program that waits by the descriptor of its channel and never blocks in ibv_get_cq_event is lent the receiving: the descriptor can be read when
// packets have come, and the call handles them. Nothing waits for a program that does something else meanwhile.
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>

#define MESSAGES 500

static struct end a, b;
static int set;

static bool take_event(struct end *e)
{
	struct ibv_cq *cq;
	void *context;
	if (ibv_get_cq_event(e->channel, &cq, &context)) {
		CHECK(errno == EAGAIN);
		return false;
	}
	CHECK(cq == e->cq && context == e);
	ibv_ack_cq_events(cq, 1);
	CHECK(!ibv_req_notify_cq(cq, 0));
	return true;
}

// taken polls what there is, and returns how many messages that were.
static int taken(struct end *e)
{
	struct ibv_wc wc;
	int n, messages = 0;
	while ((n = ibv_poll_cq(e->cq, 1, &wc)) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS, "is %s", ibv_wc_status_str(wc.status));
		messages += wc.wr_id == 1;
	}
	CHECK(!n);
	return messages;
}

static void answer(struct end *e)
{
	post_recv(e, e->qp, 1, 0, 64);
	post_send(e, 2, 64, 64);
}

// peer asks, by blocking calls.
static void *peer(void *arg)
{
	int n = *(int *)arg;
	for (int i = 0; i < n; i++) {
		answer(&a);
		while (!taken(&a))
			CHECK(take_event(&a));
	}
	return NULL;
}

// talk answers as many messages; drains says that it asks for events until there is none.
static void talk(int n, bool drains)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, peer, &n));
	for (int got = 0; got < n;) {
		struct epoll_event e;
		if (epoll_wait(set, &e, 1, -1) != 1) {
			CHECK(errno == EINTR);
			continue;
		}
		while (take_event(&b) && drains)
			;
		for (int more = taken(&b); more--; got++)
			answer(&b);
	}
	CHECK(!pthread_join(thread, NULL));
}

static void wait_by(uint32_t events)
{
	struct epoll_event e = {.events = events};
	CHECK(!epoll_ctl(set, EPOLL_CTL_MOD, b.channel->fd, &e));
}

// read_memory has the peer read while this program does nothing, and the device has to answer.
static void read_memory(void)
{
	for (int i = 0; i < 3; i++) {
		int n = 64; // enough to be lent it, now and then
		talk(n, false);
		post_rdma(&a, IBV_WR_RDMA_READ, 3, 128, 64, (uintptr_t)b.buf, b.mr->rkey);
		struct ibv_wc wc;
		do
			wc = next_wc(a.cq);
		while (wc.wr_id == 2);
		CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS);
	}
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	for (int i = 0; i < 4; i++)
		post_recv(&b, b.qp, 1, 0, 64);
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(!take_event(&b), "nothing is there");
	CHECK(!ibv_req_notify_cq(a.cq, 0) && !ibv_req_notify_cq(b.cq, 0));
	CHECK((set = epoll_create1(0)) >= 0);
	struct epoll_event e = {.events = EPOLLIN};
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, b.channel->fd, &e));

	talk(MESSAGES, false);
	talk(MESSAGES, true);
	wait_by(EPOLLIN | EPOLLET);
	talk(MESSAGES, true);
	read_memory();

	// A call that may block does, until there is an event.
	wait_by(EPOLLIN);
	talk(MESSAGES, false);
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) & ~O_NONBLOCK));
	pthread_t thread;
	int one = 1;
	CHECK(!pthread_create(&thread, NULL, peer, &one));
	int got = 0;
	while (!(got = taken(&b)))
		CHECK(take_event(&b));
	CHECK(got == 1);
	answer(&b);
	CHECK(!pthread_join(thread, NULL));

	// The channel ends while it receives.
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK));
	talk(MESSAGES, false);
	close(set);
	end_close(&b);
	end_close(&a);
	return 0;
}
