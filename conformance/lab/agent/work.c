/* Work requests and completions. */
#include "verbsd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define MAX_SGE 32
#define MAX_WC 256

/* sge=MR:OFF:LEN of a registered region, or sge=@ADDR:LKEY:LEN as given. */
static int parse_sges(struct ibv_sge *sge)
{
	int n = 0;
	for (const char *s; (s = arg_nth("sge", n)); n++) {
		char a[32], b[32], c[32];
		if (n == MAX_SGE)
			fail(E2BIG, "more than %d SGEs", MAX_SGE);
		if (sscanf(s, "%31[^:]:%31[^:]:%31s", a, b, c) != 3)
			fail(EINVAL, "sge %s", s);
		if (a[0] == '@') {
			sge[n] = (struct ibv_sge){.addr = parse_num(a + 1), .lkey = parse_num(b), .length = parse_num(c)};
			continue;
		}
		struct object *mr = object_get(parse_num(a), K_MR);
		sge[n] = (struct ibv_sge){.addr = mr->iova + parse_num(b), .lkey = ((struct ibv_mr *)mr->p)->lkey, .length = parse_num(c)};
	}
	return n;
}

/* ATOMIC WRITE and FLUSH exist in the extended interface only. */
static void post_extended(struct object *qp, unsigned opcode, struct ibv_sge *sge, int nsge)
{
	if (!qp->qpx)
		fail(EOPNOTSUPP, "the QP was made without ops=");
	ibv_wr_start(qp->qpx);
	qp->qpx->wr_id = num("wr_id", 0);
	qp->qpx->wr_flags = num("flags", IBV_SEND_SIGNALED);
	switch (opcode) {
#ifdef HAVE_ATOMIC_WRITE
	case IBV_WR_ATOMIC_WRITE: {
		uint8_t value[8];
		uint64_t v = num("value", 0);
		for (int i = 0; i < 8; i++)
			value[i] = v >> 8 * i;
		ibv_wr_atomic_write(qp->qpx, num("rkey", 0), num("remote_addr", 0), value);
		break;
	}
#endif
#ifdef HAVE_FLUSH
	case IBV_WR_FLUSH:
		ibv_wr_flush(qp->qpx, num("rkey", 0), num("remote_addr", 0), num("len", 0), num("plt", IBV_FLUSH_GLOBAL), num("sel", IBV_FLUSH_RANGE));
		break;
#endif
	default:
		ibv_wr_abort(qp->qpx);
		fail(EOPNOTSUPP, "opcode %u is unknown to this library", opcode);
	}
	(void)sge;
	(void)nsge;
	int err = ibv_wr_complete(qp->qpx);
	if (err)
		fail(err, "post");
}

static void cmd_post_send(void)
{
	struct object *qp = need_obj("qp", K_QP);
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = {
		.wr_id = num("wr_id", 0), .sg_list = sge, .num_sge = parse_sges(sge),
		.opcode = need_num("opcode"), .send_flags = num("flags", IBV_SEND_SIGNALED),
	}, *bad;
	switch ((unsigned)wr.opcode) {
	case 14: /* FLUSH */
	case 15: /* ATOMIC WRITE */
		post_extended(qp, wr.opcode, sge, wr.num_sge);
		return;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		wr.wr.rdma.remote_addr = num("remote_addr", 0);
		wr.wr.rdma.rkey = num("rkey", 0);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = num("remote_addr", 0);
		wr.wr.atomic.rkey = num("rkey", 0);
		wr.wr.atomic.compare_add = num("compare_add", 0);
		wr.wr.atomic.swap = num("swap", 0);
		break;
	case IBV_WR_BIND_MW: {
		struct object *mr = need_obj("mr", K_MR);
		struct ibv_mw *mw = need_obj("mw", K_MW)->p;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = need_num("rkey");
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = mr->p, .addr = mr->iova + num("off", 0), .length = need_num("len"), .mw_access_flags = need_num("access")};
		break;
	}
	default:
		break;
	}
	if (has("inv_rkey"))
		wr.invalidate_rkey = need_num("inv_rkey");
	else if (has("imm"))
		wr.imm_data = htonl(need_num("imm"));
	if (has("ah")) {
		wr.wr.ud.ah = need_obj("ah", K_AH)->p;
		wr.wr.ud.remote_qpn = need_num("remote_qpn");
		wr.wr.ud.remote_qkey = need_num("remote_qkey");
	}
	int err = ibv_post_send(qp->p, &wr, &bad);
	if (err)
		fail(err, "post");
	if (wr.opcode == IBV_WR_BIND_MW)
		((struct ibv_mw *)wr.bind_mw.mw)->rkey = wr.bind_mw.rkey;
}

static void cmd_post_recv(void)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_recv_wr wr = {.wr_id = num("wr_id", 0), .sg_list = sge, .num_sge = parse_sges(sge)}, *bad;
	struct object *srq = opt_obj("srq", K_SRQ);
	int err = 0;
	for (uint64_t i = num("count", 1); i > 0 && !err; i--) {
		if (srq)
			err = ibv_post_srq_recv(srq->p, &wr, &bad);
		else
			err = ibv_post_recv(need_obj("qp", K_QP)->p, &wr, &bad);
		wr.wr_id++;
	}
	if (err)
		fail(err, "post");
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static bool hung_up(void)
{
	char c;
	return recv(peer_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* How poll looks: YIELDS times at once, and then with naps that grow. */
enum { YIELDS = 16, NAPS_ALIKE = 16, MIN_NAP_NS = 100000, MAX_NAP_NS = 1600000 };

/* poll: waits for min completions (default 1) up to timeout_ms; then answers what there is,
 * up to max. */
static void cmd_poll(void)
{
	struct ibv_cq *cq = need_obj("cq", K_CQ)->p;
	struct ibv_wc wc[MAX_WC];
	int max = num("max", 64), min = num("min", 1), n = 0, idle = 0;
	uint64_t end = now_ms() + num("timeout_ms", 0);
	long nap = MIN_NAP_NS;
	if (max > MAX_WC)
		max = MAX_WC;
	for (;;) {
		int k = ibv_poll_cq(cq, max - n, wc + n);
		if (k < 0)
			fail(EIO, "poll");
		n += k;
		if (n >= max || n >= min || (k == 0 && now_ms() >= end))
			break;
		if (k == 0 && idle % NAPS_ALIKE == 0 && hung_up())
			break; /* nobody waits for this any more */
		if (k == 0) {
			/* rxe does its work in tasks that need the CPU, of which there is one; and other
			 * agents wait, too, some of them long. */
			if (idle++ < YIELDS)
				sched_yield();
			else
				nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
			if (idle > YIELDS && idle % NAPS_ALIKE == 0 && nap < MAX_NAP_NS)
				nap *= 2;
		}
	}
	for (int i = 0; i < n; i++) {
		/* rxe hands the kernel's flags on as they are, where "with invalidate" is bit 2: in
		 * libibverbs that is "IP checksum ok", which rxe never means, and others do. */
		unsigned inv_flags = IBV_WC_WITH_INV | (strncmp(dev_name, "rxe", 3) ? 0 : IBV_WC_IP_CSUM_OK);
		bool inv = wc[i].wc_flags & inv_flags;
		out(" wc=%llu,%d,%d,%u,%u,0x%x,0x%x,%u,0x%x", (unsigned long long)wc[i].wr_id, wc[i].status, wc[i].opcode,
		    wc[i].vendor_err, wc[i].byte_len, wc[i].qp_num, wc[i].src_qp, wc[i].wc_flags,
		    inv ? wc[i].invalidated_rkey : ntohl(wc[i].imm_data));
	}
}

const struct command work_commands[] = {{"post_send", cmd_post_send}, {"post_recv", cmd_post_recv}, {"poll", cmd_poll}, {NULL, NULL}};
