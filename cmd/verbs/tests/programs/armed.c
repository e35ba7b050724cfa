// An event that is asked for when completions wait. UCX polls until there are no more, asks for the event and sleeps: what
// has come between has to wake it, as it does on adapters.
#include "check.h"

#include <fcntl.h>
#include <poll.h>

static struct end a, b;

static bool readable(void) { return poll(&(struct pollfd){.fd = b.channel->fd, .events = POLLIN}, 1, 0) == 1; }

static void take_event(void)
{
	struct ibv_cq *cq;
	void *context;
	FAILS_INT(0, ibv_get_cq_event(b.channel, &cq, &context));
	CHECK(cq == b.cq);
	ibv_ack_cq_events(cq, 1);
}

static bool no_event(void)
{
	struct ibv_cq *cq;
	void *context;
	return ibv_get_cq_event(b.channel, &cq, &context) == -1 && errno == EAGAIN;
}

// message returns when the receiver has its completion: it was acknowledged.
static void message(void)
{
	post_recv(&b, b.qp, 1, 0, 64);
	post_send(&a, 2, 64, 64);
	expect_wc(a.cq, 2, IBV_WC_SUCCESS);
}

int main(void)
{
	pair_open(&a, &b, IBV_QPT_RC, 4096);

	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	CHECK(!readable(), "nothing is there");
	message(); // makes the event
	message(); // does not
	take_event();
	CHECK(!readable());
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	CHECK(readable(), "no event has told of the second");
	take_event();
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	CHECK(!readable(), "told of both");
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	message();
	take_event();
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);

	message();
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 1));
	CHECK(!readable(), "not solicited");
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);

	// It takes all events, and sleeps with a completion that it was told of and has not polled: of the queue that it comes to
	// later.
	CHECK(!fcntl(b.channel->fd, F_SETFL, O_NONBLOCK));
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	message();
	take_event();
	CHECK(no_event());
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	CHECK(readable(), "it waits for what is there");
	take_event();
	CHECK(no_event());
	expect_wc(b.cq, 1, IBV_WC_SUCCESS);
	FAILS_INT(0, ibv_req_notify_cq(b.cq, 0));
	CHECK(!readable(), "all is polled");

	end_close(&a);
	end_close(&b);
	return 0;
}
