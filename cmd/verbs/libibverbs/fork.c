// Processes that were forked, and the list of open contexts that they need.
#include "shim.h"

#include <pthread.h>

// The threads of the Go half stay with the parent: any call into it would wait for ever in the child. So the child leaves it
// alone, and loads one of its own when it opens a device, or uses what the parent has made: see heir.c.
unsigned int shim_generation;
static bool said;

static void refuse(void)
{
	if (said)
		return;
	said = true;
	shim_say("a device that was opened before a fork cannot be used in the child");
}

bool shim_foreign(const struct ibv_context *c)
{
	if (!shim_of_parent(c))
		return false;
	if (!goroce_inherit() && !shim_of_parent(c))
		return false;
	refuse();
	return true;
}

EXPORT unsigned int goroce_generation(void) { return shim_generation; }

EXPORT int goroce_foreign(unsigned int generation)
{
	if (UNLIKELY(generation != shim_generation)) {
		refuse();
		return 1;
	}
	if (core)
		shim_meet();
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shim_context *contexts;

struct shim_context *shim_contexts(void) { return contexts; }

// In the child these stand in the place of the operations of the data path, until what the parent has made is there.
static int first_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return shim_foreign(cq->context) ? -1 : shim_poll_cq(cq, n, wc);
}

static int first_notify(struct ibv_cq *cq, int solicited_only)
{
	return shim_foreign(cq->context) ? ENODEV : shim_req_notify_cq(cq, solicited_only);
}

static int first_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (!shim_foreign(qp->context))
		return shim_post_send(qp, wr, bad);
	*bad = wr;
	return ENODEV;
}

static int first_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!shim_foreign(qp->context))
		return shim_post_recv(qp, wr, bad);
	*bad = wr;
	return ENODEV;
}

static int first_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!shim_foreign(srq->context))
		return shim_post_srq_recv(srq, wr, bad);
	*bad = wr;
	return ENODEV;
}

// before_fork makes sure that what the child needs is not in the middle of a change, by a thread that the child lacks.
static void before_fork(void)
{
	shim_heir_lock();
	shim_fork_lock();
	shim_devices_lock();
	pthread_mutex_lock(&mutex);
	shim_signals_lock();
}

static void after_fork(void)
{
	shim_signals_unlock();
	pthread_mutex_unlock(&mutex);
	shim_devices_unlock();
	shim_fork_unlock();
	shim_heir_unlock();
}

// in_child replaces the operations of the data path, which keeps the check out of it.
static void in_child(void)
{
	if (core) {
		shim_generation++;
		said = false;
		for (struct shim_context *x = contexts; x; x = x->next) {
			struct ibv_context_ops *ops = &x->verbs.context.ops;
			ops->poll_cq = first_poll;
			ops->req_notify_cq = first_notify;
			ops->post_send = first_send;
			ops->post_recv = first_recv;
			ops->post_srq_recv = first_srq_recv;
		}
		shim_unload();
		shim_heir_forked();
		shim_signals_without_go();
	}
	after_fork();
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

void shim_contexts_add(struct shim_context *c)
{
	pthread_mutex_lock(&mutex);
	c->next = contexts;
	contexts = c;
	pthread_mutex_unlock(&mutex);
}

void shim_contexts_remove(struct shim_context *c)
{
	pthread_mutex_lock(&mutex);
	for (struct shim_context **p = &contexts; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	pthread_mutex_unlock(&mutex);
}

// Nothing is pinned here, and the memory of a child is its own: there is nothing to protect from fork.
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
EXPORT int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
