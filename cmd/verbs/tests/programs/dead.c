// A device whose sockets are gone: IBV_EVENT_DEVICE_FATAL, what was posted is flushed, who waits for it is told, and
// all can be destroyed.
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

static int sockets[4096]; // that were the process's
static int broken;

// break_sockets puts another file in the place of each UDP socket of the process.
static void break_sockets(void)
{
	int null = open("/dev/null", O_RDONLY), fds[4096], n = 0;
	CHECK(null >= 0);
	for (int fd = 0; fd < 4096; fd++) {
		int type, domain;
		socklen_t size = sizeof type;
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_DGRAM)
			continue;
		size = sizeof domain;
		if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) || (domain != AF_INET && domain != AF_INET6))
			continue;
		fds[n++] = fd;
	}
	for (int i = 0; i < n; i++) {
		if ((sockets[broken] = dup(fds[i])) < 0)
			continue; // a device that is awake has noticed, and closes them
		CHECK(dup2(null, fds[i]) == fds[i]);
		broken++;
	}
	CHECK(broken);
}

// rouse wakes the threads that sleep in ppoll: each has the socket that it went to sleep on, whatever is in its place.
static void rouse(void)
{
	for (int i = 0; i < broken; i++) {
		(void)shutdown(sockets[i], SHUT_RDWR); // ENOTCONN without a peer, and yet it wakes
		CHECK(!close(sockets[i]));
	}
}

int main(void)
{
	static struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 1 << 16);
	post_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, (uintptr_t)b.buf, b.mr->rkey);
	expect_wc(a.cq, 1, IBV_WC_SUCCESS);
	post_recv(&a, a.qp, 2, 0, 64);
	post_recv(&a, a.qp, 3, 64, 64);
	CHECK(!ibv_req_notify_cq(a.cq, 0));
	post_recv(&b, b.qp, 4, 0, 64);

	break_sockets();
	struct ibv_sge s = sge_of(&b, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	int refused = ibv_post_send(b.qp, &wr, &bad); // makes a system call
	CHECK(!refused || refused == EIO, "is %d", refused); // it was awake, and has noticed before
	rouse();
	struct ibv_async_event e;
	CHECK(!ibv_get_async_event(a.ctx, &e));
	CHECK(e.event_type == IBV_EVENT_DEVICE_FATAL, "is %s", ibv_event_type_str(e.event_type));
	ibv_ack_async_event(&e);

	struct ibv_cq *cq;
	void *context;
	CHECK(!ibv_get_cq_event(a.channel, &cq, &context));
	CHECK(cq == a.cq);
	ibv_ack_cq_events(cq, 1);
	expect_wc(a.cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(a.cq, 3, IBV_WC_WR_FLUSH_ERR);

	s = sge_of(&a, 0, 8);
	FAILS_INT(EIO, ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);

	CHECK(!ibv_get_async_event(b.ctx, &e));
	CHECK(e.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&e);
	for (int left = refused ? 1 : 2; left; left--) {
		struct ibv_wc wc = next_wc(b.cq);
		CHECK((wc.wr_id == 4 || wc.wr_id == 5) && wc.status != IBV_WC_SUCCESS);
	}
	end_close(&a);
	end_close(&b);
	return 0;
}
