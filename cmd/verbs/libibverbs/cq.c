// Completion queues and completion channels.
#include "shim.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	ENTER_NULL(c);
	struct shim_channel *ch = calloc(1, sizeof *ch);
	if (!ch)
		return null_errno(ENOMEM);
	ch->channel.context = c;
	ch->channel.fd = shim_eventfd();
	int e = ch->channel.fd < 0 ? errno : CORE(create_channel, to_context(c)->handle, ch->channel.fd, &ch->handle);
	if (e) {
		if (ch->channel.fd >= 0)
			close(ch->channel.fd);
		free(ch);
		return null_errno(e);
	}
	shim_keep(SHIM_CHANNEL, &ch->link);
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
	shim_drop(&to_channel(ch)->link);
	if (!shim_of_parent(ch->context)) {
		shim_meet();
		CORE(destroy_channel, to_channel(ch)->handle);
	}
	close(ch->fd);
	free(ch);
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	ENTER_MINUS(ch->context);
	static __thread pid_t thread;
	static __thread unsigned int born; // thread is of this generation
	uint64_t cookie;
	int e, first = 1;
	shim_pause(ch->context);
	if (UNLIKELY(!thread || born != shim_generation)) {
		thread = gettid();
		born = shim_generation;
	}
	do {
		unsigned int interrupted = shim_interrupted;
		e = CORE(channel_look, to_channel(ch)->handle, thread, first, &cookie);
		first = 0;
		if (e != ENOENT)
			break;
		// As it would have interrupted the read, which takes a count that is there.
		if (shim_interrupted != interrupted && poll(&(struct pollfd){.fd = ch->fd, .events = POLLIN}, 1, 0) == 0) {
			errno = EINTR;
			return -1;
		}
		// A count may be left over from a queue that is gone.
		uint64_t count;
		if (read(ch->fd, &count, sizeof count) != sizeof count)
			return -1;
		e = CORE(channel_next, to_channel(ch)->handle, thread, &cookie);
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
	ENTER_NULL(c);
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
	int e = CORE(create_cq, &a);
	if (e) {
		free(q);
		return null_errno(e);
	}
	q->cq.cqe = a.cqe;
	q->ring = a.ring;
	q->cq.handle = q->handle = a.handle;
	q->vector = vector;
	count_users(ch, 1);
	shim_keep(SHIM_CQ, &q->link);
	return q;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector)
{
	struct shim_cq *q = shim_create_cq(c, cqe, context, ch, vector);
	return q ? &q->cq : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	ENTER_INT(cq->context);
	struct shim_cq *q = to_cq(cq);
	shim_cq_lock(q); // nobody looks at the ring while it is replaced
	int e = set_errno(CORE(resize_cq, q->handle, &cqe, &q->ring));
	if (!e)
		cq->cqe = cqe;
	shim_cq_unlock(q);
	return e;
}

void shim_cq_forget(struct shim_cq *q, uint32_t qpn, bool keep_sent)
{
	shim_cq_lock(q);
	struct goroce_ring *r = q->ring;
	uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE), to = tail;
	for (uint64_t from = tail; from != r->head;) { // the newest first: what stays moves up to the tail
		const struct goroce_ring_slot *s = &r->slots[--from & r->mask];
		bool sent = s->wc.status == IBV_WC_SUCCESS && !(s->wc.opcode & IBV_WC_RECV);
		if ((s->wc.qp_num != qpn || (keep_sent && sent)) && --to != from)
			r->slots[to & r->mask] = *s;
	}
	__atomic_store_n(&r->head, to, __ATOMIC_RELEASE);
	shim_cq_unlock(q);
}

bool shim_cq_unpolled(struct shim_cq *q, uint32_t qpn, bool sends)
{
	bool found = false;
	shim_cq_lock(q);
	const struct goroce_ring *r = q->ring;
	uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	for (uint64_t i = r->head; i != tail && !found; i++) {
		const struct ibv_wc *wc = &r->slots[i & r->mask].wc;
		found = wc->qp_num == qpn && wc->status == IBV_WC_SUCCESS && sends == !(wc->opcode & IBV_WC_RECV);
	}
	shim_cq_unlock(q);
	return found;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct shim_cq *q = to_cq(cq);
	if (!shim_of_parent(cq->context)) {
		shim_meet();
		uint32_t comp = 0, async = 0;
		int e = set_errno(CORE(destroy_cq, q->handle, &comp, &async));
		if (e)
			return e;
		shim_wait_acks(&cq->mutex, &cq->cond, &cq->comp_events_completed, comp);
		shim_wait_acks(&cq->mutex, &cq->cond, &cq->async_events_completed, async);
	}
	shim_drop(&q->link);
	count_users(cq->channel, -1);
	pthread_mutex_destroy(&cq->mutex);
	pthread_cond_destroy(&cq->cond);
	free(q);
	return 0;
}

// How many looks at an empty queue there are to one call of the Go half, in which packets are received: as many as take
// as long as a short call, and more once nothing has come for a while: longer than an answer takes.
#define LOOKS_PER_CALL 16
#define LOOKS_WHEN_QUIET 128
#define QUIET_AFTER 8192

// How many threads have looked at an empty queue, and have not ended.
static unsigned int pollers;
static pthread_key_t poller;
static __thread bool polls;

static void ended(void *unused)
{
	(void)unused;
	__atomic_sub_fetch(&pollers, 1, __ATOMIC_RELAXED);
}

static void make_key(void)
{
	pthread_key_create(&poller, ended);
}

static void note_poller(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_key);
	if (!pthread_setspecific(poller, &polls))
		__atomic_add_fetch(&pollers, 1, __ATOMIC_RELAXED);
	polls = true;
}

bool shim_cq_over(const struct shim_cq *q)
{
	const struct goroce_ring *r = q->ring;
	return UNLIKELY(__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) & GOROCE_RING_OVERFLOWED) && shim_ring_empty(r);
}

int shim_cq_idle(struct shim_cq *q, bool over)
{
	shim_pause(q->cq.context);
	if (over)
		return -1;
	unsigned int looks = ++q->looks;
	if (looks % LOOKS_PER_CALL || (looks > QUIET_AFTER && looks % LOOKS_WHEN_QUIET))
		return 0;
	shim_meet();
	if (UNLIKELY(!polls))
		note_poller();
	CORE_DO(progress, q->handle, __atomic_load_n(&pollers, __ATOMIC_RELAXED));
	return 0;
}

int shim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct shim_cq *q = to_cq(cq);
	shim_cq_lock(q);
	struct goroce_ring *r = q->ring;
	uint64_t head = r->head, have = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) - head;
	int taken = 0;
	for (; taken < n && (uint64_t)taken < have; taken++)
		wc[taken] = r->slots[(head + (uint64_t)taken) & r->mask].wc;
	if (taken) {
		__atomic_store_n(&r->head, head + (uint64_t)taken, __ATOMIC_RELEASE);
		q->looks = 0;
		shim_cq_unlock(q);
		return taken;
	}
	bool over = shim_cq_over(q);
	shim_cq_unlock(q);
	return shim_cq_idle(q, over);
}

int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	shim_meet();
	shim_pause(cq->context);
	return CORE(req_notify_cq, to_cq(cq)->handle, solicited_only);
}
