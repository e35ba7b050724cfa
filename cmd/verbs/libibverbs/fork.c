// Processes that were forked, and the list of open contexts that they need.
#include "shim.h"

#include <pthread.h>

// The threads of the Go half stay with the parent: any call into it would wait for ever in the child. So the child leaves it
// alone, with all objects that belong to it, and loads one of its own when it opens a device.
unsigned int shim_generation;
static bool said;

static void refuse(void)
{
	if (said)
		return;
	said = true;
	shim_say("a device that was opened before a fork cannot be used in the child: open it there");
}

bool shim_foreign(const struct ibv_context *c)
{
	if (!UNLIKELY(to_context((struct ibv_context *)c)->born != shim_generation))
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

static int no_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n, (void)wc;
	refuse();
	return -1;
}

static int no_notify(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	refuse();
	return ENODEV;
}

static int no_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	refuse();
	*bad = wr;
	return ENODEV;
}

static int no_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	refuse();
	*bad = wr;
	return ENODEV;
}

static int no_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	refuse();
	*bad = wr;
	return ENODEV;
}

// before_fork makes sure that what the child needs is not in the middle of a change, by a thread that the child lacks.
static void before_fork(void)
{
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
}

// in_child replaces the operations of the data path, which keeps the check out of it.
static void in_child(void)
{
	if (core) {
		shim_generation++;
		said = false;
		for (struct shim_context *x = contexts; x; x = x->next) {
			struct ibv_context_ops *ops = &x->verbs.context.ops;
			ops->poll_cq = no_poll;
			ops->req_notify_cq = no_notify;
			ops->post_send = no_send;
			ops->post_recv = no_recv;
			ops->post_srq_recv = no_srq_recv;
		}
		shim_unload();
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
