// Asynchronous events, and what the two kinds of events share: eventfds and acknowledgements.
#include "shim.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

// shim_eventfd makes the descriptor of a channel: each read takes one event, and poll, epoll and select see
// whether there are any.
int shim_eventfd(void) { return eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC); }

// shim_wait_acks waits until the program has acknowledged all events that it was given of an object.
void shim_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t reported)
{
	pthread_mutex_lock(mutex);
	while (*completed != reported)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

EXPORT int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *e)
{
	ENTER_MINUS(c);
	struct goroce_async a;
	int r;
	do {
		// A count may be left over from an object that is gone.
		uint64_t count;
		if (read(c->async_fd, &count, sizeof count) != sizeof count)
			return -1;
		r = CORE(async_next, to_context(c)->handle, &a);
	} while (r == ENOENT);
	if (r) {
		errno = r;
		return -1;
	}
	e->event_type = (enum ibv_event_type)a.type;
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		e->element.cq = (struct ibv_cq *)(uintptr_t)a.element;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		e->element.qp = (struct ibv_qp *)(uintptr_t)a.element;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		e->element.srq = (struct ibv_srq *)(uintptr_t)a.element;
		break;
	default:
		e->element.port_num = (int)a.element;
	}
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		acknowledge(&e->element.cq->mutex, &e->element.cq->cond, &e->element.cq->async_events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		acknowledge(&e->element.qp->mutex, &e->element.qp->cond, &e->element.qp->events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&e->element.srq->mutex, &e->element.srq->cond, &e->element.srq->events_completed);
		break;
	default:
		break; // of the device or a port: nothing waits
	}
}
