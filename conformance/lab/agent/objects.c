/* Protection domains, regions, windows, queues, address handles, events, counters. */
#include "verbsd.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void cmd_pd(void) { out(" id=%d", object_new(K_PD, ibv_alloc_pd(ctx))); }

/* What the buffers of a connection may have in all: a client's mistake must not take the
 * machine's memory. */
#define MAX_BYTES (1ull << 30)
static uint64_t total;

static void cmd_buf(void)
{
	uint64_t len = need_num("len");
	if (len > MAX_BYTES - total)
		fail(ENOMEM, "more than %llu bytes in all", MAX_BYTES);
	void *p = mmap(NULL, len ? len : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		fail(errno, "buffer");
	int id = object_new(K_BUF, p);
	object_get(id, K_BUF)->len = len;
	total += len;
	out(" id=%d addr=0x%llx", id, (unsigned long long)(uintptr_t)p);
}

static void cmd_mr(void)
{
	struct object *b = need_obj("buf", K_BUF);
	uint64_t off = num("off", 0), len = num("len", b->len - off);
	uint8_t *addr = span(b, off, len);
	uint64_t iova = num("iova", (uintptr_t)addr);
	struct ibv_mr *mr;
	if (has("iova"))
		mr = ibv_reg_mr_iova(need_obj("pd", K_PD)->p, addr, len, iova, need_num("access"));
	else
		mr = ibv_reg_mr(need_obj("pd", K_PD)->p, addr, len, need_num("access"));
	int id = object_new(K_MR, mr);
	struct object *o = object_get(id, K_MR);
	o->len = len;
	o->addr = addr;
	o->iova = iova;
	out(" id=%d addr=0x%llx lkey=0x%x rkey=0x%x", id, (unsigned long long)iova, mr->lkey, mr->rkey);
}

static void cmd_rereg(void)
{
	struct object *o = need_obj("mr", K_MR);
	struct object *b = opt_obj("buf", K_BUF), *pd = opt_obj("pd", K_PD);
	int flags = 0;
	uint8_t *addr = NULL;
	uint64_t len = 0;
	if (b) {
		flags |= IBV_REREG_MR_CHANGE_TRANSLATION;
		len = num("len", b->len);
		addr = span(b, num("off", 0), len);
	}
	if (pd)
		flags |= IBV_REREG_MR_CHANGE_PD;
	if (has("access"))
		flags |= IBV_REREG_MR_CHANGE_ACCESS;
	int err = ibv_rereg_mr(o->p, flags, pd ? pd->p : NULL, addr, len, num("access", 0));
	if (err)
		fail(err == -1 ? errno : err, "rereg");
	if (b) {
		o->addr = addr;
		o->len = len;
		o->iova = (uintptr_t)addr;
	}
	struct ibv_mr *mr = o->p;
	out(" lkey=0x%x rkey=0x%x", mr->lkey, mr->rkey);
}

static void cmd_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(need_obj("pd", K_PD)->p, need_num("type"));
	int id = object_new(K_MW, mw);
	out(" id=%d rkey=0x%x", id, mw->rkey);
}

/* A type 1 window; windows of type 2 are bound by post_send. */
static void cmd_bind_mw1(void)
{
	struct object *mr = need_obj("mr", K_MR);
	struct ibv_mw *mw = need_obj("mw", K_MW)->p;
	struct ibv_mw_bind b = {
		.wr_id = num("wr_id", 0),
		.send_flags = num("flags", IBV_SEND_SIGNALED),
		.bind_info = {.mr = mr->p, .addr = mr->iova + num("off", 0), .length = need_num("len"), .mw_access_flags = need_num("access")},
	};
	int err = ibv_bind_mw(need_obj("qp", K_QP)->p, mw, &b);
	if (err)
		fail(err, "bind");
	out(" rkey=0x%x", mw->rkey);
}

static void cmd_cq(void)
{
	struct ibv_comp_channel *ch = NULL;
	if (num("channel", 0)) {
		ch = ibv_create_comp_channel(ctx);
		if (!ch)
			fail(errno, "completion channel");
		fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	}
	int id = object_new(K_CQ, ibv_create_cq(ctx, need_num("cqe"), NULL, ch, 0));
	object_get(id, K_CQ)->channel = ch;
	out(" id=%d cqe=%d", id, ((struct ibv_cq *)object_get(id, K_CQ)->p)->cqe);
}

static void cmd_resize_cq(void)
{
	struct ibv_cq *cq = need_obj("cq", K_CQ)->p;
	int err = ibv_resize_cq(cq, need_num("cqe"));
	if (err)
		fail(err, "resize");
	out(" cqe=%d", cq->cqe);
}

static void cmd_notify(void)
{
	int err = ibv_req_notify_cq(need_obj("cq", K_CQ)->p, num("solicited", 0));
	if (err)
		fail(err, "notify");
}

static void cmd_wait_cq(void)
{
	struct object *o = need_obj("cq", K_CQ);
	struct ibv_cq *cq;
	void *cookie;
	if (!o->channel)
		fail(EINVAL, "the CQ has no channel");
	struct pollfd p = {.fd = o->channel->fd, .events = POLLIN};
	if (poll(&p, 1, num("timeout_ms", 1000)) <= 0) {
		out(" event=0");
		return;
	}
	if (ibv_get_cq_event(o->channel, &cq, &cookie))
		fail(errno, "event");
	ibv_ack_cq_events(cq, 1);
	out(" event=1");
}

static void cmd_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = need_num("max_wr"), .max_sge = num("max_sge", 1), .srq_limit = num("limit", 0)}};
	out(" id=%d", object_new(K_SRQ, ibv_create_srq(need_obj("pd", K_PD)->p, &a)));
}

static void cmd_modify_srq(void)
{
	struct ibv_srq_attr a = {.max_wr = num("max_wr", 0), .srq_limit = num("limit", 0)};
	int mask = (has("max_wr") ? IBV_SRQ_MAX_WR : 0) | (has("limit") ? IBV_SRQ_LIMIT : 0);
	int err = ibv_modify_srq(need_obj("srq", K_SRQ)->p, &a, mask);
	if (err)
		fail(err, "modify");
}

static void cmd_ah(void)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .sl = num("sl", 0),
		.grh = {.sgid_index = need_num("sgid_index"), .hop_limit = num("hop_limit", 64), .traffic_class = num("tclass", 0), .flow_label = num("flow_label", 0)},
	};
	need_gid("dgid", &a.grh.dgid);
	out(" id=%d", object_new(K_AH, ibv_create_ah(need_obj("pd", K_PD)->p, &a)));
}

static void cmd_free(void)
{
	static const char *const keys[] = {"pd", "buf", "mr", "mw", "cq", "srq", "ah", "qp"};
	for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (!has(keys[i]))
			continue;
		enum kind k = K_PD + i;
		struct object *o = need_obj(keys[i], k);
		int err = 0;
		switch (k) {
		case K_PD: err = ibv_dealloc_pd(o->p); break;
		case K_BUF: err = munmap(o->p, o->len ? o->len : 1) ? errno : 0; break;
		case K_MR: err = ibv_dereg_mr(o->p); break;
		case K_MW: err = ibv_dealloc_mw(o->p); break;
		case K_CQ: err = ibv_destroy_cq(o->p); break;
		case K_SRQ: err = ibv_destroy_srq(o->p); break;
		case K_AH: err = ibv_destroy_ah(o->p); break;
		case K_QP: err = ibv_destroy_qp(o->p); break;
		default: break;
		}
		if (err)
			fail(err == -1 ? errno : err, "free %s", keys[i]);
		if (o->channel)
			ibv_destroy_comp_channel(o->channel);
		if (k == K_BUF)
			total -= o->len;
		o->kind = K_FREE;
	}
}

/* gids: g=INDEX,TYPE,GID with type 1 for RoCE v2 (2 is v1 in the library's enum: the name is printed). */
static void cmd_gids(void)
{
	struct ibv_gid_entry e[64];
	ssize_t n = ibv_query_gid_table(ctx, e, 64, 0);
	if (n < 0)
		fail(-n, "GID table");
	for (ssize_t i = 0; i < n; i++) {
		char s[INET6_ADDRSTRLEN];
		inet_ntop(AF_INET6, e[i].gid.raw, s, sizeof s);
		out(" g=%u,%s,%s", e[i].gid_index, e[i].gid_type == IBV_GID_TYPE_ROCE_V2 ? "v2" : "other", s);
	}
}

static void cmd_counters(void)
{
	char dir[256], path[600];
	snprintf(dir, sizeof dir, "/sys/class/infiniband/%s/ports/1/hw_counters", dev_name);
	DIR *d = opendir(dir);
	if (!d && errno == ENOENT) /* a device without counters */
		return;
	if (!d)
		fail(errno, "counters");
	for (struct dirent *e; (e = readdir(d));) {
		unsigned long long v;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%llu", &v) == 1 && strcmp(e->d_name, "lifespan"))
			out(" %s=%llu", e->d_name, v);
		fclose(f);
	}
	closedir(d);
}

static void cmd_events(void)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
	int wait = num("timeout_ms", 0);
	fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK);
	for (struct ibv_async_event e; poll(&p, 1, wait) > 0; wait = 0) {
		if (ibv_get_async_event(ctx, &e))
			break;
		out(" ev=%d", e.event_type);
		ibv_ack_async_event(&e);
	}
}

const struct command object_commands[] = {
	{"pd", cmd_pd}, {"buf", cmd_buf}, {"mr", cmd_mr}, {"rereg", cmd_rereg}, {"mw", cmd_mw}, {"bind_mw1", cmd_bind_mw1},
	{"cq", cmd_cq}, {"resize_cq", cmd_resize_cq}, {"notify", cmd_notify}, {"wait_cq", cmd_wait_cq},
	{"srq", cmd_srq}, {"modify_srq", cmd_modify_srq}, {"ah", cmd_ah}, {"free", cmd_free},
	{"gids", cmd_gids}, {"counters", cmd_counters}, {"events", cmd_events}, {NULL, NULL},
};
