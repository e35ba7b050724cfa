/* The last message of a peer, and that the connection has ended: a program that looks for messages and then for events gets both. So
   does one that looks for the completion of its own last message. */
#include "check.h"
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static struct rdma_event_channel *sch, *cch;
static struct rdma_cm_id *lid, *server, *client;
static char said[8] = "bye", heard[8];
static struct ibv_mr *said_mr, *heard_mr;

static struct rdma_cm_id *expect(struct rdma_event_channel *ch, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	OK(rdma_get_cm_event(ch, &e));
	struct rdma_cm_id *id = e->id;
	if (e->event != want || e->status) {
		fprintf(stderr, "%s (%d), not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(want));
		exit(1);
	}
	OK(rdma_ack_cm_event(e));
	return id;
}

static struct ibv_mr *ready(struct rdma_cm_id *id, char *memory)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	OK(rdma_create_qp(id, NULL, &a));
	struct ibv_mr *mr = rdma_reg_msgs(id, memory, 8);
	CHECK(mr);
	return mr;
}

static void hear(void)
{
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(server->recv_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
}

/* It returns when the server's completion queues have what the client has said, or that it has heard the server, and the channel the end,
   or soon. */
static void hang_up(int answered)
{
	struct sockaddr_in from = addr("127.0.0.2", 0), to = addr("127.0.0.1", ntohs(rdma_get_src_port(lid)));
	struct rdma_conn_param p = {.retry_count = 7, .rnr_retry_count = 7};
	OK(rdma_create_id(cch, &client, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(client, SA(from), SA(to), 1000));
	expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_resolve_route(client, 1000));
	expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	said_mr = ready(client, said);
	OK(rdma_connect(client, &p));
	server = expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	heard_mr = ready(server, heard);
	OK(rdma_post_recv(server, NULL, heard, sizeof heard, heard_mr));
	OK(rdma_accept(server, &p));
	expect(cch, RDMA_CM_EVENT_ESTABLISHED);
	expect(sch, RDMA_CM_EVENT_ESTABLISHED);
	struct ibv_wc wc;
	OK(rdma_post_send(client, NULL, said, sizeof said, said_mr, 0));
	CHECK(rdma_get_send_comp(client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	if (answered) {
		hear();
		OK(rdma_post_recv(client, NULL, said, sizeof said, said_mr));
		OK(rdma_post_send(server, NULL, heard, sizeof heard, heard_mr, 0));
		CHECK(rdma_get_recv_comp(client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	OK(rdma_disconnect(client));
	expect(cch, RDMA_CM_EVENT_DISCONNECTED);
}

static int readable(int timeout)
{
	struct pollfd f = {.fd = sch->fd, .events = POLLIN};
	return poll(&f, 1, timeout);
}

static void blocking(int yes) { OK(fcntl(sch->fd, F_SETFL, yes ? 0 : O_NONBLOCK)); }

static void client_over(void)
{
	OK(ibv_dereg_mr(said_mr));
	rdma_destroy_qp(client);
	OK(rdma_destroy_id(client));
}

static void server_over(void)
{
	OK(ibv_dereg_mr(heard_mr));
	if (server->qp)
		rdma_destroy_qp(server);
	OK(rdma_destroy_id(server));
}

static void over(void)
{
	client_over();
	server_over();
}

/* A connection of which the completions wait: its end waits for some time. If that has passed before the program asks, there is another. */
static void own_word(void)
{
	struct rdma_cm_event *e;
	struct ibv_wc wc;
	for (int tries = 1;; tries++) {
		hang_up(1);
		blocking(0);
		int now = rdma_get_cm_event(sch, &e);
		blocking(1);
		CHECK(ibv_poll_cq(server->send_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND);
		if (now) {
			expect(sch, RDMA_CM_EVENT_DISCONNECTED);
			over();
			return;
		}
		CHECK(e->event == RDMA_CM_EVENT_DISCONNECTED && tries < 20);
		OK(rdma_ack_cm_event(e));
		over();
	}
}

int main(void)
{
	struct sockaddr_in any = addr("127.0.0.1", 0);
	struct rdma_cm_event *e;
	CHECK((sch = rdma_create_event_channel()) && (cch = rdma_create_event_channel()));
	OK(rdma_create_id(sch, &lid, NULL, RDMA_PS_TCP));
	OK(rdma_bind_addr(lid, SA(any)));
	OK(rdma_listen(lid, 4));

	hang_up(0);
	blocking(0);
	FAILS(rdma_get_cm_event(sch, &e), EAGAIN); /* first the message */
	hear();
	blocking(1);
	expect(sch, RDMA_CM_EVENT_DISCONNECTED);
	over();

	/* What can be read has an event, also for a program that polls or does not. */
	for (int polls = 0; polls < 2; polls++) {
		hang_up(0);
		if (polls)
			hear();
		blocking(0);
		CHECK(readable(-1) == 1);
		expect(sch, RDMA_CM_EVENT_DISCONNECTED);
		CHECK(readable(0) == 0);
		blocking(1);
		if (!polls)
			hear();
		over();
	}

	hang_up(0);
	expect(sch, RDMA_CM_EVENT_DISCONNECTED); /* the program need not poll */
	hear();
	over();

	hang_up(0);
	blocking(0);
	FAILS(rdma_get_cm_event(sch, &e), EAGAIN);
	over(); /* with it goes the event */

	blocking(1);
	hang_up(0);
	OK(ibv_destroy_qp(server->qp)); /* of which the identifier does not know */
	expect(sch, RDMA_CM_EVENT_DISCONNECTED);
	server->qp = NULL;
	over();

	own_word();

	OK(rdma_destroy_id(lid));
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
	return 0;
}
