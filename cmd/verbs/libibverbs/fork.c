// Processes that were forked, and the list of open contexts that they need.
#include "shim.h"

#include <pthread.h>

bool shim_forked;
static bool said;

// shim_refused reports whether this process may not use verbs: the threads of the Go half have stayed with the
// parent, and any call into it could wait for ever. That is said once.
bool shim_refused(void)
{
	if (!UNLIKELY(shim_forked))
		return false;
	if (!said) {
		said = true;
		shim_say("this process was forked from one with open devices and cannot use them: fork first, or exec");
	}
	return true;
}

EXPORT int goroce_forked(void)
{
	if (shim_refused())
		return 1;
	if (core)
		shim_meet();
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shim_context *contexts;

static int no_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n, (void)wc;
	shim_refused();
	return -1;
}

static int no_notify(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	shim_refused();
	return ENODEV;
}

static int no_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	shim_refused();
	*bad = wr;
	return ENODEV;
}

static int no_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	shim_refused();
	*bad = wr;
	return ENODEV;
}

static int no_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	shim_refused();
	*bad = wr;
	return ENODEV;
}

// in_child runs in the child of a fork. Replacing the operations keeps the check out of the data path.
static void in_child(void)
{
	pthread_mutex_init(&mutex, NULL); // whoever held it is not in this process
	if (!core)
		return; // the Go half can still be loaded
	shim_forked = true;
	for (struct shim_context *x = contexts; x; x = x->next) {
		struct ibv_context_ops *ops = &x->verbs.context.ops;
		ops->poll_cq = no_poll;
		ops->req_notify_cq = no_notify;
		ops->post_send = no_send;
		ops->post_recv = no_recv;
		ops->post_srq_recv = no_srq_recv;
	}
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

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
