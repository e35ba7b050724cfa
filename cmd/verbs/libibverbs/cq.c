// Completion queues and completion channels.
#include "shim.h"

#include <limits.h>
#include <pthread.h>
#include <unistd.h>

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	ENTER_NULL();
	struct shim_channel *ch = calloc(1, sizeof *ch);
	if (!ch)
		return null_errno(ENOMEM);
	ch->channel.context = c;
	ch->channel.fd = shim_eventfd();
	int e = ch->channel.fd < 0 ? errno : core->create_channel(to_context(c)->handle, ch->channel.fd, &ch->handle);
	if (e) {
		if (ch->channel.fd >= 0)
			close(ch->channel.fd);
		free(ch);
		return null_errno(e);
	}
	return &ch->channel;
}

// The count of users is under the mutex of the context, as in rdma-core.
static void count_users(struct ibv_comp_channel *ch, int change)
{
	if (!ch)
		return;
	pthread_mutex_lock(&ch->context->mutex);
	ch->refcnt += change;
	pthread_mutex_unlock(&ch->context->mutex);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	pthread_mutex_lock(&ch->context->mutex);
	bool busy = ch->refcnt > 0;
	pthread_mutex_unlock(&ch->context->mutex);
	if (busy)
		return EBUSY;
	if (!shim_forked) {
		shim_meet();
		core->destroy_channel(to_channel(ch)->handle);
	}
	close(ch->fd);
	free(ch);
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	ENTER_MINUS();
	uint64_t cookie;
	int e;
	do {
		// A count may be left over from a queue that is gone.
		uint64_t count;
		if (read(ch->fd, &count, sizeof count) != sizeof count)
			return -1;
		e = core->channel_next(to_channel(ch)->handle, &cookie);
	} while (e == ENOENT);
	if (e) {
		errno = e;
		return -1;
	}
	*cq = (struct ibv_cq *)(uintptr_t)cookie;
	*context = (*cq)->cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

struct shim_cq *shim_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector)
{
	ENTER_NULL();
	if (cqe < 1 || vector < 0 || vector >= c->num_comp_vectors)
		return null_errno(EINVAL);
	struct shim_cq *q = calloc(1, sizeof *q);
	if (!q)
		return null_errno(ENOMEM);
	struct goroce_cq a = {
		.device = to_context(c)->handle, .channel = ch ? to_channel(ch)->handle : 0,
		.cqe = cqe, .vector = vector, .cookie = (uintptr_t)q,
	};
	// Before the Go half knows the queue: an event may come at once.
	q->cq.context = c;
	q->cq.channel = ch;
	q->cq.cq_context = context;
	pthread_mutex_init(&q->cq.mutex, NULL);
	pthread_cond_init(&q->cq.cond, NULL);
	pthread_mutex_init(&q->poll_lock, NULL);
	int e = core->create_cq(&a);
	if (e) {
		free(q);
		return null_errno(e);
	}
	q->cq.cqe = a.cqe;
	q->cq.handle = q->handle = a.handle;
	count_users(ch, 1);
	return q;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector)
{
	struct shim_cq *q = shim_create_cq(c, cqe, context, ch, vector);
	return q ? &q->cq : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	ENTER_INT();
	int e = core->resize_cq(to_cq(cq)->handle, &cqe);
	if (!e)
		cq->cqe = cqe;
	return e;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	ENTER_INT();
	struct shim_cq *q = to_cq(cq);
	uint32_t comp = 0, async = 0;
	int e = core->destroy_cq(q->handle, &comp, &async);
	if (e)
		return e;
	shim_wait_acks(&cq->mutex, &cq->cond, &cq->comp_events_completed, comp);
	shim_wait_acks(&cq->mutex, &cq->cond, &cq->async_events_completed, async);
	count_users(cq->channel, -1);
	pthread_mutex_destroy(&cq->mutex);
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&q->poll_lock);
	free(q);
	return 0;
}

int shim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	shim_meet();
	return core->poll_cq(to_cq(cq)->handle, n, wc);
}

int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	shim_meet();
	return core->req_notify_cq(to_cq(cq)->handle, solicited_only);
}
