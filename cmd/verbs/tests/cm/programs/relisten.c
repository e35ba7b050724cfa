/* A server that listens anew for each connection, whose client is faster, as in perftest. */
#include "check.h"
#include <rdma/rdma_cma.h>

static struct rdma_event_channel *sch, *cch;
static struct rdma_cm_id *lid;
static struct sockaddr_in at;

static struct rdma_cm_event *next(struct rdma_event_channel *ch, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;
	OK(rdma_get_cm_event(ch, &e));
	if (e->event != want) {
		fprintf(stderr, "%s (%d), not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(want));
		exit(1);
	}
	return e;
}

static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type want)
{
	OK(rdma_ack_cm_event(next(ch, want)));
}

static void listens(void)
{
	OK(rdma_create_id(sch, &lid, NULL, RDMA_PS_TCP));
	OK(rdma_bind_addr(lid, SA(at)));
	OK(rdma_listen(lid, 4));
	at.sin_port = rdma_get_src_port(lid);
}

static struct rdma_cm_id *asks(struct sockaddr_in to)
{
	struct rdma_cm_id *id;
	struct sockaddr_in from = addr("127.0.0.2", 0);
	struct rdma_conn_param p = {.retry_count = 7, .rnr_retry_count = 7, .qp_num = 77};
	OK(rdma_create_id(cch, &id, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(id, SA(from), SA(to), 1000));
	expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_resolve_route(id, 1000));
	expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	OK(rdma_create_qp(id, NULL, &a));
	OK(rdma_connect(id, &p));
	return id;
}

static struct rdma_cm_id *accepts(struct rdma_cm_id *client)
{
	struct rdma_conn_param p = {.rnr_retry_count = 7};
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_cm_event *e = next(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = e->id;
	OK(rdma_create_qp(id, NULL, &a));
	OK(rdma_accept(id, &p));
	OK(rdma_ack_cm_event(e));
	e = next(cch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(e->id == client);
	OK(rdma_ack_cm_event(e));
	expect(sch, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void ends(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));
}

/* Waits for the refusal of a service that nobody has, and so for all that was asked before. */
static void refused_elsewhere(void)
{
	struct rdma_cm_id *id = asks(addr("127.0.0.1", 1));
	struct rdma_cm_event *e = next(cch, RDMA_CM_EVENT_REJECTED);
	CHECK(e->id == id && e->status == 8);
	OK(rdma_ack_cm_event(e));
	ends(id);
}

int main(void)
{
	sch = rdma_create_event_channel();
	cch = rdma_create_event_channel();
	CHECK(sch && cch);
	at = addr("127.0.0.1", 0);
	listens();
	struct rdma_cm_id *c1 = asks(at), *s1 = accepts(c1);
	OK(rdma_destroy_id(lid));

	struct rdma_cm_id *c2 = asks(at);
	refused_elsewhere();
	listens();
	struct rdma_cm_id *s2 = accepts(c2);
	OK(rdma_destroy_id(lid));

	/* If nobody listens in the end, that is told. */
	struct rdma_cm_id *c3 = asks(at);
	struct rdma_cm_event *e = next(cch, RDMA_CM_EVENT_REJECTED);
	CHECK(e->id == c3 && e->status == 8);
	OK(rdma_ack_cm_event(e));

	struct rdma_cm_id *all[] = {c1, s1, c2, s2, c3};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		ends(all[i]);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
	return 0;
}
