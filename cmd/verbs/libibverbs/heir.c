// What the child of a fork has of the objects of its parent. On a kernel it may use them. Here the engine of the parent is not in the child,
// so objects of it are made again, in an engine of the child's own, when the child first uses one: contexts, domains, memory with its keys, channels, queues, and
// queue pairs that have no peer yet. What was posted, what waits in a queue, and connections stay with the parent.
//
// The child of a fork that uses none of them, or executes another program, as most do, pays for a lock and two descriptors.
#include "shim.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define LEAVES_MS 100 // a parent that becomes a daemon is gone by then

static pthread_mutex_t objects = PTHREAD_MUTEX_INITIALIZER; // the lists
static struct shim_link *kept[SHIM_KINDS];
static pthread_mutex_t inheriting = PTHREAD_MUTEX_INITIALIZER;

// A pipe whose end to write only the process with the engine has: the other end, which children have too, hears when it is gone.
static int life[2] = {-1, -1};
static int parent = -1; // that end, of the process that has made what is to be inherited

void shim_keep(enum shim_kind kind, struct shim_link *l)
{
	pthread_mutex_lock(&objects);
	l->next = kept[kind];
	l->at = &kept[kind];
	if (l->next)
		l->next->at = &l->next;
	kept[kind] = l;
	pthread_mutex_unlock(&objects);
}

void shim_drop(struct shim_link *l)
{
	pthread_mutex_lock(&objects);
	if (l->at) {
		*l->at = l->next;
		if (l->next)
			l->next->at = l->at;
		l->at = NULL;
	}
	pthread_mutex_unlock(&objects);
}

static bool is_kept(enum shim_kind kind, const struct shim_link *l)
{
	for (const struct shim_link *k = kept[kind]; k; k = k->next)
		if (k == l)
			return true;
	return false;
}

// The program may have destroyed the queue pair without its ID knowing: what is in the lists is not freed meanwhile.
EXPORT bool goroce_qp_unpolled(struct ibv_qp *qp, bool sends)
{
	bool found = false;
	pthread_mutex_lock(&objects);
	if (is_kept(SHIM_QP, &to_qp(qp)->link) && to_qp(qp)->handle) {
		struct ibv_cq *cq = sends ? qp->send_cq : qp->recv_cq;
		found = cq && is_kept(SHIM_CQ, &to_cq(cq)->link) && shim_cq_unpolled(to_cq(cq), qp->qp_num, sends);
	}
	pthread_mutex_unlock(&objects);
	return found;
}

void shim_heir_lock(void)
{
	pthread_mutex_lock(&inheriting);
	pthread_mutex_lock(&objects);
}

void shim_heir_unlock(void)
{
	pthread_mutex_unlock(&objects);
	pthread_mutex_unlock(&inheriting);
}

// shim_heir_begin is called when the Go half has been loaded, once in a process.
void shim_heir_begin(void)
{
	if (pipe2(life, O_CLOEXEC))
		life[0] = life[1] = -1; // children take the parent for gone
}

// shim_heir_forked is called in the child of a process that has loaded it.
void shim_heir_forked(void)
{
	if (parent >= 0)
		close(parent);
	parent = life[0];
	if (life[1] >= 0)
		close(life[1]);
	life[0] = life[1] = -1;
}

EXPORT int goroce_life(void) { return life[0]; }
EXPORT int goroce_parent(void) { return parent; }

static bool parent_gone(int ms)
{
	struct pollfd p = {.fd = parent};
	return parent < 0 || poll(&p, 1, ms) == 1;
}

// goroce_renew makes an eventfd of the parent one of the child. It is the same one, so that sets of epoll know it, if the parent has gone; else it has the
// same number, since what the parent is told is not to be taken from it.
EXPORT int goroce_renew(int fd, int kind)
{
	uint64_t n;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	if (parent_gone(0)) {
		while (poll(&p, 1, 0) == 1 && read(fd, &n, sizeof n) == sizeof n)
			;
		return 0;
	}
	int flags = fcntl(fd, F_GETFL), made = eventfd(0, kind | EFD_CLOEXEC);
	if (made < 0)
		return errno;
	int e = dup3(made, fd, O_CLOEXEC) < 0 || (flags & O_NONBLOCK && fcntl(fd, F_SETFL, O_NONBLOCK)) ? errno : 0;
	close(made);
	return e;
}

#define OBJECT(l, type) ((type *)((char *)(l) - offsetof(type, link)))

static int again_pd(struct shim_link *l)
{
	struct ibv_pd *pd = &OBJECT(l, struct shim_pd)->pd;
	pd->handle = 0;
	return CORE(alloc_pd, to_context(pd->context)->handle, &pd->handle);
}

static int again_channel(struct shim_link *l)
{
	struct shim_channel *ch = OBJECT(l, struct shim_channel);
	ch->handle = 0;
	int e = goroce_renew(ch->channel.fd, EFD_SEMAPHORE);
	return e ? e : CORE(create_channel, to_context(ch->channel.context)->handle, ch->channel.fd, &ch->handle);
}

// Memory has the keys that it had: the program, and its peers to be, may know them.
static int again_mr(struct shim_link *l)
{
	struct shim_mr *m = OBJECT(l, struct shim_mr);
	struct goroce_mr a = {
		.addr = m->mr.addr, .length = m->mr.length, .iova = m->iova, .access = m->access, .key = m->mr.lkey,
	};
	m->mr.handle = 0;
	int e = CORE(reg_mr, m->mr.pd->handle, &a);
	m->mr.handle = a.handle;
	return e;
}

static int again_mw(struct shim_link *l)
{
	struct ibv_mw *mw = &OBJECT(l, struct shim_mw)->mw;
	mw->handle = 0;
	return CORE(alloc_mw, mw->pd->handle, (int)mw->type, &mw->rkey, &mw->handle);
}

static int again_ah(struct shim_link *l)
{
	struct shim_ah *a = OBJECT(l, struct shim_ah);
	a->ah.handle = 0;
	return CORE(create_ah, a->ah.pd->handle, &a->attr, &a->ah.handle);
}

static int again_cq(struct shim_link *l)
{
	struct shim_cq *q = OBJECT(l, struct shim_cq);
	struct goroce_cq a = {
		.device = to_context(q->cq.context)->handle, .channel = q->cq.channel ? to_channel(q->cq.channel)->handle : 0,
		.cqe = q->cq.cqe, .vector = q->vector, .cookie = (uintptr_t)q,
	};
	q->cq.handle = q->handle = 0;
	q->lock = 0;
	q->looks = 0;
	q->cq.comp_events_completed = q->cq.async_events_completed = 0;
	int e = CORE(create_cq, &a);
	if (e)
		return e;
	q->ring = a.ring;
	q->cq.handle = q->handle = a.handle;
	return 0;
}

static int again_srq(struct shim_link *l)
{
	struct shim_srq *s = OBJECT(l, struct shim_srq);
	struct goroce_srq a = {.pd = s->srq.pd->handle, .attr = s->attr, .cookie = (uintptr_t)s};
	s->srq.handle = s->handle = 0;
	s->srq.events_completed = 0;
	int e = CORE(create_srq, &a);
	s->srq.handle = s->handle = a.handle;
	return e;
}

// again_qp makes a queue pair, with another number, and takes it to where it was. One with a peer stays with the parent: its handle is 0.
static int again_qp(struct shim_link *l)
{
	struct shim_qp *q = OBJECT(l, struct shim_qp);
	struct ibv_qp *qp = &q->qp;
	bool peerless = qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT ||
			(qp->qp_type == IBV_QPT_UD && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS));
	struct goroce_send_ring *ring = q->ring;
	qp->handle = q->handle = 0;
	q->ring = NULL;
	q->send_lock = 0;
	q->run = 0;
	if (!peerless)
		return 0;
	struct goroce_qp g = {
		.pd = qp->pd->handle, .send_cq = to_cq(qp->send_cq)->handle, .recv_cq = to_cq(qp->recv_cq)->handle,
		.srq = qp->srq ? to_srq(qp->srq)->handle : 0, .type = qp->qp_type, .sig_all = !!q->init.sq_sig_all,
		.cap = q->init.cap, .cookie = (uintptr_t)q, .send_ring = ring,
	};
	if (ring)
		memset(ring, 0, offsetof(struct goroce_send_ring, slots));
	int e = CORE(create_qp, &g);
	if (e)
		return e;
	qp->handle = q->handle = g.handle;
	q->ring = ring;
	qp->qp_num = g.qp_num;
	qp->events_completed = 0;
	struct ibv_qp_attr a = q->attr;
	const enum ibv_qp_state to = qp->state;
	qp->state = IBV_QPS_RESET;
	if (to != IBV_QPS_RESET) {
		a.qp_state = IBV_QPS_INIT;
		e = CORE(modify_qp, q->handle, &a, IBV_QP_STATE | (q->attr_mask & ~IBV_QP_SQ_PSN));
	}
	if (!e && (to == IBV_QPS_RTR || to == IBV_QPS_RTS)) {
		a.qp_state = IBV_QPS_RTR;
		e = CORE(modify_qp, q->handle, &a, IBV_QP_STATE);
	}
	if (!e && to == IBV_QPS_RTS) {
		a.qp_state = IBV_QPS_RTS;
		e = CORE(modify_qp, q->handle, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	}
	if (!e)
		qp->state = to;
	return e;
}

static int (*const again[SHIM_KINDS])(struct shim_link *) = {
	[SHIM_PD] = again_pd, [SHIM_CHANNEL] = again_channel, [SHIM_MR] = again_mr, [SHIM_MW] = again_mw,
	[SHIM_AH] = again_ah, [SHIM_CQ] = again_cq, [SHIM_SRQ] = again_srq, [SHIM_QP] = again_qp,
};

#define CONTEXT_OF(kind, type, field) \
	static struct ibv_context *kind##_context(struct shim_link *l) { return OBJECT(l, type)->field.context; }
CONTEXT_OF(pd, struct shim_pd, pd)
CONTEXT_OF(channel, struct shim_channel, channel)
CONTEXT_OF(mr, struct shim_mr, mr)
CONTEXT_OF(mw, struct shim_mw, mw)
CONTEXT_OF(ah, struct shim_ah, ah)
CONTEXT_OF(cq, struct shim_cq, cq)
CONTEXT_OF(srq, struct shim_srq, srq)
CONTEXT_OF(qp, struct shim_qp, qp)
static struct ibv_context *(*const context_of[SHIM_KINDS])(struct shim_link *) = {
	[SHIM_PD] = pd_context, [SHIM_CHANNEL] = channel_context, [SHIM_MR] = mr_context, [SHIM_MW] = mw_context,
	[SHIM_AH] = ah_context, [SHIM_CQ] = cq_context, [SHIM_SRQ] = srq_context, [SHIM_QP] = qp_context,
};

// shim_forget takes the objects of a context that is closed out of the lists.
void shim_forget(const struct ibv_context *c)
{
	for (int k = 0; k < SHIM_KINDS; k++)
		for (bool found = true; found;) {
			struct shim_link *l;
			pthread_mutex_lock(&objects);
			for (l = kept[k]; l && context_of[k](l) != c; l = l->next)
				;
			pthread_mutex_unlock(&objects);
			found = l;
			if (l)
				shim_drop(l);
		}
}

// inherit makes all that the parent has made. What cannot be made answers as an object that is gone.
static int inherit(void)
{
	if (shim_load())
		return ENODEV;
	shim_meet();
	parent_gone(LEAVES_MS);
	int e = 0;
	for (struct shim_context *x = shim_contexts(); x && !e; x = x->next)
		if (x->born != shim_generation)
			e = shim_open_again(x);
	if (e)
		return e;
	for (int k = 0; k < SHIM_KINDS; k++)
		for (struct shim_link *l = kept[k]; l; l = l->next)
			if (to_context(context_of[k](l))->born != shim_generation) {
				int failed = again[k](l);
				if (failed && !e)
					e = failed;
			}
	if (e)
		shim_say("not all that was made before a fork could be made again in the child: %s", strerror(e));
	for (struct shim_context *x = shim_contexts(); x; x = x->next)
		if (x->born != shim_generation) {
			shim_set_ops(x);
			__atomic_store_n(&x->born, shim_generation, __ATOMIC_RELEASE);
		}
	return 0;
}

// goroce_inherit returns when what the parent has made is there, 0, or that it cannot be.
EXPORT int goroce_inherit(void)
{
	pthread_mutex_lock(&inheriting);
	bool all = true;
	for (struct shim_context *x = shim_contexts(); x; x = x->next)
		all = all && x->born == shim_generation;
	int e = all ? 0 : inherit();
	pthread_mutex_unlock(&inheriting);
	return e;
}
