// A program that waits for the events of its channel is lent the receiving: the descriptor can be read when packets have come, and the call handles
// them, and finds an event. Nothing waits for a program that does something else meanwhile.
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

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
		CHECK(take_event(&b), "the descriptor could be read");
		while (drains && take_event(&b))
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

// read_memory has the peer read, and the device has to answer, while nobody asks for events.
static void read_memory(void)
{
	struct ibv_wc wc;
	post_rdma(&a, IBV_WR_RDMA_READ, 3, 128, 64, (uintptr_t)b.buf, b.mr->rkey);
	do
		wc = next_wc(a.cq);
	while (wc.wr_id == 2);
	CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS);
}

// lease has the program be lent the receiving, now and then.
static void lease(void) { talk(64, false); }

static void computes(void)
{
	lease();
	read_memory();
}

static void *only_leases(void *arg)
{
	(void)arg;
	lease();
	return NULL;
}

static void thread_ends(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, only_leases, NULL) && !pthread_join(thread, NULL));
	read_memory();
}

static void waits_by_another_descriptor(void)
{
	int fd = dup(b.channel->fd);
	struct epoll_event e = {.events = EPOLLIN};
	CHECK(fd >= 0 && !epoll_ctl(set, EPOLL_CTL_DEL, b.channel->fd, NULL) && !epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	lease();
	read_memory();
	CHECK(!epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) && !epoll_ctl(set, EPOLL_CTL_ADD, b.channel->fd, &e) && !close(fd));
}

static void closes_the_descriptor(void)
{
	lease();
	CHECK(!close(b.channel->fd)); // another file may be it now: no more is asked of it
	read_memory();
}

static void has_a_child(void)
{
	int ends[2];
	CHECK(!pipe(ends));
	lease();
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		char c;
		_exit(close(ends[1]) || read(ends[0], &c, 1) != 0);
	}
	read_memory();
	lease();
	read_memory();
	int status;
	CHECK(!close(ends[1]) && waitpid(child, &status, 0) == child && !status && !close(ends[0]));
}

static void has_a_set_that_nobody_asks(void)
{
	int other = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN};
	CHECK(other >= 0 && !epoll_ctl(other, EPOLL_CTL_ADD, b.channel->fd, &e));
	lease();
	CHECK(!epoll_ctl(set, EPOLL_CTL_DEL, b.channel->fd, NULL));
	read_memory();
	CHECK(!close(other));
	read_memory();
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, b.channel->fd, &e));
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
	wait_by(EPOLLIN);
	for (int i = 0; i < 3; i++) {
		computes();
		thread_ends();
		waits_by_another_descriptor();
		has_a_child();
		has_a_set_that_nobody_asks();
	}

	// A call that may block does, until there is an event.
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
	closes_the_descriptor();
	close(set);
	end_close(&b);
	end_close(&a);
	return 0;
}
