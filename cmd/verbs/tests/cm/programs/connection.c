/* Identifiers, their events and connections: what a program on librdmacm does, and what it gets wrong. */
#include "check.h"
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static struct rdma_event_channel *sch, *cch;
static struct rdma_cm_id *lid;
static struct sockaddr_in at; /* of lid */

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
	struct rdma_cm_event *e = next(ch, want);
	CHECK(e->status == 0);
	OK(rdma_ack_cm_event(e));
}

static int readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, ms) == 1;
}

static struct rdma_cm_id *resolved(enum rdma_port_space ps, struct sockaddr_in *to)
{
	struct rdma_cm_id *id;
	struct sockaddr_in from = addr("127.0.0.2", 0);
	OK(rdma_create_id(cch, &id, &cch, ps));
	OK(rdma_resolve_addr(id, SA(from), SA(*to), 1000));
	expect(cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs && id->port_num == 1 && id->pd && id->context == &cch);
	CHECK(((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr == to->sin_addr.s_addr);
	CHECK(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr == from.sin_addr.s_addr);
	CHECK(rdma_get_dst_port(id) == to->sin_port && rdma_get_src_port(id) != 0);
	OK(rdma_resolve_route(id, 1000));
	expect(cch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->hop_limit > 0);
	return id;
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {4, 4, 1, 1, 64}, .qp_type = id->qp_type, .sq_sig_all = 1};
	OK(rdma_create_qp(id, NULL, &a));
	CHECK(id->qp && id->send_cq && id->recv_cq && a.send_cq == id->send_cq);
	FAILS(rdma_create_qp(id, NULL, &a), EINVAL);
}

static void bad_input(void)
{
	struct rdma_cm_id *id, *freed;
	struct rdma_cm_event *e;
	struct sockaddr_in any = addr("0.0.0.0", 0), foreign = addr("192.0.2.1", 0);
	struct sockaddr nonsense = {.sa_family = AF_UNIX};
	struct rdma_conn_param p = {0};
	uint8_t tos = 0x28, zero = 0;
	int one = 1;
	FAILS(rdma_create_id(cch, NULL, NULL, RDMA_PS_TCP), EINVAL);
	FAILS(rdma_create_id(cch, &id, NULL, 0x77), EINVAL);
	OK(rdma_create_id(cch, &freed, NULL, RDMA_PS_TCP));
	OK(rdma_destroy_id(freed));
	FAILS(rdma_destroy_id(freed), EINVAL);
	FAILS(rdma_destroy_id(NULL), EINVAL);
	FAILS(rdma_bind_addr(freed, SA(any)), EINVAL);
	FAILS(rdma_connect(freed, NULL), EINVAL);
	FAILS(rdma_listen(freed, 1), EINVAL);
	FAILS(rdma_get_cm_event(cch, NULL), EINVAL);
	FAILS(rdma_get_cm_event(NULL, &e), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);

	OK(rdma_create_id(cch, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_resolve_route(id, 1), EINVAL);
	FAILS(rdma_connect(id, &p), EINVAL);
	FAILS(rdma_accept(id, &p), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_reject(id, NULL, 0), EINVAL);
	FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	FAILS(rdma_establish(id), EINVAL);
	FAILS(rdma_bind_addr(id, NULL), EINVAL);
	FAILS(rdma_bind_addr(id, &nonsense), EINVAL);
	FAILS(rdma_bind_addr(id, SA(foreign)), EADDRNOTAVAIL);
	FAILS(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	FAILS(rdma_resolve_addr(id, SA(foreign), SA(at), 1), EADDRNOTAVAIL);
	FAILS(rdma_get_request(id, &freed), EINVAL);
	FAILS(rdma_leave_multicast(id, SA(foreign)), EADDRNOTAVAIL);
	FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	struct rdma_cm_join_mc_attr_ex m = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED};
	FAILS(rdma_join_multicast_ex(id, &m, NULL), ENOTSUP);
	m.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	FAILS(rdma_join_multicast_ex(id, &m, NULL), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, sizeof one), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 99, &one, sizeof one), ENOSYS);
	FAILS(rdma_set_option(id, 99, 0, &one, sizeof one), ENOSYS);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &zero, 1), EINVAL);
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one));
	FAILS(rdma_bind_addr(id, SA(at)), EADDRINUSE);
	OK(rdma_bind_addr(id, SA(any)));
	CHECK(rdma_get_src_port(id) != 0 && !id->verbs);
	FAILS(rdma_bind_addr(id, SA(any)), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one), EINVAL);
	struct ibv_ece ece = {0};
	FAILS(rdma_set_local_ece(id, &ece), EINVAL);
	FAILS(rdma_get_remote_ece(id, NULL), EINVAL);
	OK(rdma_get_remote_ece(id, &ece));
	OK(rdma_destroy_id(id));
	FAILS(rdma_create_ep(NULL, NULL, NULL, NULL), EINVAL);
	struct rdma_addrinfo *res;
	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK(!strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
}

/* Refusals: nobody listens, the program does not want to, too much is asked for. */
static void refused(void)
{
	struct sockaddr_in nobody = addr("127.0.0.1", 7);
	struct rdma_conn_param p = {.private_data = "why not", .private_data_len = 7, .retry_count = 200, .rnr_retry_count = 200};
	struct rdma_cm_id *id = resolved(RDMA_PS_TCP, &nobody);
	add_qp(id);
	OK(rdma_connect(id, &p));
	struct rdma_cm_event *e = next(cch, RDMA_CM_EVENT_REJECTED);
	CHECK(e->status == 8); /* invalid service ID */
	OK(rdma_ack_cm_event(e));
	FAILS(rdma_connect(id, &p), EINVAL);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq);
	OK(rdma_destroy_id(id));

	struct sockaddr_in empty = addr("127.0.0.3", 7); /* no process is there: its host says so */
	id = resolved(RDMA_PS_TCP, &empty);
	add_qp(id);
	OK(rdma_connect(id, &p));
	e = next(cch, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(e->status == -ECONNREFUSED);
	OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));

	id = resolved(RDMA_PS_TCP, &at);
	FAILS(rdma_connect(id, NULL), EINVAL); /* no queue pair, and no number of one */
	add_qp(id);
	char much[255] = {0};
	struct rdma_conn_param big = {.private_data = much, .private_data_len = 255};
	FAILS(rdma_connect(id, &big), EINVAL);
	OK(rdma_connect(id, &p));
	e = next(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(e->listen_id == lid && e->id != lid && e->id->context == lid->context);
	CHECK(e->param.conn.private_data_len == 56 && !memcmp(e->param.conn.private_data, "why not", 8));
	CHECK(e->param.conn.retry_count == 7 && e->param.conn.qp_num == id->qp->qp_num);
	struct rdma_cm_id *sid = e->id;
	OK(rdma_ack_cm_event(e));
	OK(rdma_reject(sid, "no", 2));
	FAILS(rdma_accept(sid, &p), EINVAL);
	OK(rdma_destroy_id(sid));
	e = next(cch, RDMA_CM_EVENT_REJECTED);
	CHECK(e->status == 28 && e->param.conn.private_data_len == 148 && !memcmp(e->param.conn.private_data, "no", 3));
	OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));
}

static void *destroy(void *id) { return (void *)(intptr_t)rdma_destroy_id(id); }

/* A connection, its descriptors, and what waits for what. */
static void connected(void)
{
	struct rdma_conn_param p = {.responder_resources = 3, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *id = resolved(RDMA_PS_TCP, &at);
	char out[16] = "over the wire", in[16] = "";
	add_qp(id);
	CHECK(!readable(sch->fd, 0));
	OK(rdma_connect(id, &p));
	CHECK(readable(sch->fd, -1));
	struct rdma_cm_event *e = next(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!readable(sch->fd, 0));
	CHECK(e->param.conn.responder_resources == 4 && e->param.conn.initiator_depth == 3);
	struct rdma_cm_id *sid = e->id;
	CHECK(sid->verbs == lid->verbs && sid->ps == RDMA_PS_TCP);
	CHECK(rdma_get_src_port(id) == rdma_get_dst_port(sid));
	add_qp(sid);
	struct ibv_mr *mr = rdma_reg_msgs(sid, in, sizeof in), *cmr = rdma_reg_msgs(id, out, sizeof out);
	CHECK(mr && cmr);
	OK(rdma_post_recv(sid, NULL, in, sizeof in, mr));
	OK(rdma_accept(sid, &p));
	OK(rdma_ack_cm_event(e));
	expect(cch, RDMA_CM_EVENT_ESTABLISHED);
	expect(sch, RDMA_CM_EVENT_ESTABLISHED);

	/* Another channel, which does not wait. */
	struct rdma_event_channel *own = rdma_create_event_channel();
	CHECK(own);
	OK(fcntl(own->fd, F_SETFL, O_NONBLOCK));
	OK(rdma_migrate_id(sid, own));
	CHECK(sid->channel == own);
	FAILS(rdma_get_cm_event(own, &e), EAGAIN);

	struct ibv_wc wc;
	OK(rdma_post_send(id, NULL, out, sizeof out, cmr, IBV_SEND_SIGNALED));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(sid, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(in, out));
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr ia;
	OK(ibv_query_qp(sid->qp, &a, IBV_QP_STATE, &ia));
	CHECK(a.qp_state == IBV_QPS_RTS && a.max_dest_rd_atomic == 3 && a.max_rd_atomic == 4);

	OK(rdma_disconnect(id));
	expect(cch, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(readable(own->fd, -1));
	OK(rdma_get_cm_event(own, &e));
	CHECK(e->event == RDMA_CM_EVENT_DISCONNECTED && e->id == sid && e->param.conn.private_data_len == 0);
	OK(ibv_query_qp(sid->qp, &a, IBV_QP_STATE, &ia));
	CHECK(a.qp_state == IBV_QPS_RTS); /* until the program disconnects, too */
	OK(rdma_disconnect(sid));
	OK(ibv_query_qp(sid->qp, &a, IBV_QP_STATE, &ia));
	CHECK(a.qp_state == IBV_QPS_ERR);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(cmr);
	rdma_destroy_qp(sid);
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));

	/* The end of an ID waits until its event is acknowledged. */
	pthread_t t;
	void *r;
	OK(pthread_create(&t, NULL, destroy, sid));
	struct timespec soon;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_sec++;
		soon.tv_nsec -= 1000000000;
	}
	CHECK(pthread_timedjoin_np(t, &r, &soon) == ETIMEDOUT);
	OK(rdma_ack_cm_event(e));
	FAILS(rdma_ack_cm_event(e), EINVAL);
	OK(pthread_join(t, &r));
	CHECK(r == NULL);
	rdma_destroy_event_channel(own);
}

/* Queue pairs that the program makes and moves itself, and enhanced connection establishment. */
static struct ibv_qp *qp_on(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	CHECK(qp);
	return qp;
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr a = {.qp_state = s};
		int mask;
		OK(rdma_init_qp_attr(id, &a, &mask));
		CHECK(mask & IBV_QP_STATE && a.qp_state == s);
		// 655 ms, as of kernels: the peer, which is told of no tries in by_hand, might be told of a few.
		CHECK(s != IBV_QPS_RTR || (mask & IBV_QP_MIN_RNR_TIMER && a.min_rnr_timer == 0));
		OK(ibv_modify_qp(qp, &a, mask));
	}
}

static void by_hand(void)
{
	struct rdma_cm_id *id = resolved(RDMA_PS_TCP, &at);
	struct ibv_cq *ccq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0), *scq = ibv_create_cq(lid->verbs, 8, NULL, NULL, 0);
	CHECK(ccq && scq);
	struct ibv_qp *cqp = qp_on(id->pd, ccq), *sqp = qp_on(lid->pd, scq);
	struct rdma_conn_param p = {.qp_num = cqp->qp_num, .responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct ibv_ece ece = {.vendor_id = 0x123456, .options = 77}, got;
	OK(rdma_set_local_ece(id, &ece));
	OK(rdma_connect(id, &p));
	struct rdma_cm_event *e = next(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *sid = e->id;
	OK(rdma_ack_cm_event(e));
	OK(rdma_get_remote_ece(sid, &got));
	CHECK(got.vendor_id == 0x123456 && got.options == 77);
	move(sid, sqp);
	p.qp_num = sqp->qp_num;
	FAILS(rdma_accept(sid, NULL), EINVAL);
	OK(rdma_accept(sid, &p));
	e = next(cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(e->param.conn.qp_num == sqp->qp_num);
	OK(rdma_ack_cm_event(e));
	OK(rdma_get_remote_ece(id, &got));
	CHECK(got.vendor_id == 0x123456);
	move(id, cqp);
	OK(rdma_establish(id));
	expect(sch, RDMA_CM_EVENT_ESTABLISHED);
	FAILS(rdma_establish(id), EINVAL);
	OK(rdma_notify(sid, IBV_EVENT_COMM_EST));
	OK(rdma_disconnect(id));
	expect(cch, RDMA_CM_EVENT_DISCONNECTED);
	expect(sch, RDMA_CM_EVENT_DISCONNECTED);
	OK(ibv_destroy_qp(cqp));
	OK(ibv_destroy_qp(sqp));
	OK(ibv_destroy_cq(ccq));
	OK(ibv_destroy_cq(scq));
	OK(rdma_destroy_id(id));
	OK(rdma_destroy_id(sid));
}

/* Datagrams: a lookup, one that nobody answers for, and a group. */
static void datagrams(void)
{
	struct sockaddr_in there = addr("127.0.0.1", 0), nobody = addr("127.0.0.1", 9), group = addr("239.1.2.3", 0);
	struct rdma_cm_id *l, *sid, *id = resolved(RDMA_PS_UDP, &nobody);
	struct rdma_conn_param p = {.private_data = "hello", .private_data_len = 5};
	add_qp(id);
	OK(rdma_connect(id, &p));
	struct rdma_cm_event *e = next(cch, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(e->status > 0); /* the status of the answer */
	OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));

	OK(rdma_create_id(sch, &l, NULL, RDMA_PS_UDP));
	OK(rdma_bind_addr(l, SA(there)));
	OK(rdma_listen(l, 0));
	there.sin_port = rdma_get_src_port(l);
	id = resolved(RDMA_PS_UDP, &there);
	add_qp(id);
	OK(rdma_connect(id, &p));
	e = next(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(e->param.ud.private_data_len == 180 && !memcmp(e->param.ud.private_data, "hello", 6));
	sid = e->id;
	OK(rdma_ack_cm_event(e));
	add_qp(sid);
	struct rdma_conn_param answer = {.qp_num = sid->qp->qp_num};
	OK(rdma_accept(sid, &answer));
	e = next(cch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(e->param.ud.qp_num == sid->qp->qp_num && e->param.ud.qkey == RDMA_UDP_QKEY);
	struct ibv_ah *ah = ibv_create_ah(id->pd, &e->param.ud.ah_attr);
	CHECK(ah);
	OK(ibv_destroy_ah(ah));
	OK(rdma_ack_cm_event(e));

	int mark;
	OK(rdma_join_multicast(id, SA(group), &mark));
	FAILS(rdma_join_multicast(id, SA(group), &mark), EINVAL);
	e = next(cch, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(e->status == 0 && e->param.ud.private_data == &mark && e->param.ud.qp_num == 0xffffff);
	OK(rdma_ack_cm_event(e));
	OK(rdma_leave_multicast(id, SA(group)));
	FAILS(rdma_leave_multicast(id, SA(group)), EADDRNOTAVAIL);
	rdma_destroy_qp(sid);
	OK(rdma_destroy_id(sid));
	rdma_destroy_qp(id);
	OK(rdma_destroy_id(id));
	OK(rdma_destroy_id(l));
}

/* Endpoints without channels: calls wait by themselves. */
static void *serve(void *listen)
{
	struct rdma_cm_id *id;
	char in[8];
	struct ibv_wc wc;
	OK(rdma_get_request(listen, &id));
	struct ibv_mr *mr = rdma_reg_msgs(id, in, sizeof in);
	OK(rdma_post_recv(id, NULL, in, sizeof in, mr));
	OK(rdma_accept(id, NULL));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(in, "sync"));
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void endpoints(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
	struct ibv_qp_init_attr a = {.cap = {2, 2, 1, 1, 0}, .sq_sig_all = 1}, b = a; /* room for 16 bytes inline all the same */
	struct rdma_cm_id *listen, *id;
	OK(rdma_getaddrinfo("127.0.0.1", "0", &hints, &res));
	CHECK(res->ai_src_len == sizeof(struct sockaddr_in) && res->ai_qp_type == IBV_QPT_RC);
	OK(rdma_create_ep(&listen, res, NULL, &a));
	rdma_freeaddrinfo(res);
	OK(rdma_listen(listen, 4));
	char port[8];
	snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(listen)));
	pthread_t t;
	OK(pthread_create(&t, NULL, serve, listen));
	hints.ai_flags = 0;
	OK(rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	OK(rdma_create_ep(&id, res, NULL, &b));
	OK(rdma_connect(id, NULL));
	struct ibv_wc wc;
	OK(rdma_post_send(id, NULL, "sync", 5, NULL, IBV_SEND_INLINE));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	OK(pthread_join(t, NULL));
	rdma_disconnect(id);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listen);

	/* Nobody listens any more. */
	b = a;
	OK(rdma_create_ep(&id, res, NULL, &b));
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

int main(void)
{
	sch = rdma_create_event_channel();
	cch = rdma_create_event_channel();
	CHECK(sch && cch);
	at = addr("127.0.0.1", 0);
	OK(rdma_create_id(sch, &lid, &sch, RDMA_PS_TCP));
	OK(rdma_bind_addr(lid, SA(at)));
	CHECK(lid->verbs);
	OK(rdma_listen(lid, 8));
	at.sin_port = rdma_get_src_port(lid);
	int n;
	struct ibv_context **list = rdma_get_devices(&n);
	CHECK(list && n == 2 && list[0] == lid->verbs && !list[2]);
	rdma_free_devices(list);
	bad_input();
	refused();
	connected();
	by_hand();
	datagrams();
	endpoints();
	OK(rdma_destroy_id(lid));
	CHECK(!readable(sch->fd, 0) && !readable(cch->fd, 0));
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
	return 0;
}
