// Event channels, and the events that come from them.
#include "cm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct cm_channel *cm_channel_of(struct rdma_event_channel *c)
{
	if (cm_live(c))
		return (struct cm_channel *)c;
	errno = EINVAL;
	return NULL;
}

// watch makes the descriptor that the program waits with. In the child of a fork, who may do nothing else than wait, it can also be read when the
// process that has made it has gone: then the child is to take over.
static int watch(int event)
{
	int set = epoll_create1(EPOLL_CLOEXEC), life = goroce_life();
	struct epoll_event e = {.events = EPOLLIN};
	if (set < 0)
		return -1;
	if (!epoll_ctl(set, EPOLL_CTL_ADD, event, &e) && (life < 0 || !epoll_ctl(set, EPOLL_CTL_ADD, life, &e)))
		return set;
	int err = errno;
	close(set);
	errno = err;
	return -1;
}

static void close_fds(const struct cm_channel *x)
{
	if (x->event != x->channel.fd && x->event >= 0)
		close(x->event);
	if (x->channel.fd >= 0)
		close(x->channel.fd);
}

// gone reports whether the parent has gone: its descriptors are the child's alone then.
static bool gone(void)
{
	struct pollfd p = {.fd = goroce_parent()};
	return p.fd < 0 || poll(&p, 1, 0) == 1;
}

int cm_channel_again(struct cm_channel *x)
{
	bool alone = gone(), watched = x->event != x->channel.fd;
	int e = goroce_renew(x->event, 0);
	x->handle = 0;
	if (!e && watched && alone) {
		if (goroce_parent() >= 0)
			epoll_ctl(x->channel.fd, EPOLL_CTL_DEL, goroce_parent(), NULL);
		struct epoll_event in = {.events = EPOLLIN};
		if (goroce_life() >= 0)
			epoll_ctl(x->channel.fd, EPOLL_CTL_ADD, goroce_life(), &in);
	} else if (!e && watched) {
		int flags = fcntl(x->channel.fd, F_GETFL), made = watch(x->event);
		if (made < 0)
			return errno;
		if (dup3(made, x->channel.fd, O_CLOEXEC) < 0 || (flags & O_NONBLOCK && fcntl(x->channel.fd, F_SETFL, O_NONBLOCK)))
			e = errno;
		close(made);
	}
	return e ? e : CM(create_channel, x->event, &x->handle);
}

struct rdma_event_channel *cm_channel_new(bool watched)
{
	struct cm_channel *x = calloc(1, sizeof *x);
	if (!x) {
		errno = ENOMEM;
		return NULL;
	}
	x->event = eventfd(0, EFD_CLOEXEC);
	x->channel.fd = watched && x->event >= 0 ? watch(x->event) : x->event;
	if (x->channel.fd < 0) {
		int err = errno;
		close_fds(x);
		free(x);
		errno = err;
		return NULL;
	}
	x->born = goroce_generation();
	int e = CM(create_channel, x->event, &x->handle);
	if (!e) {
		pthread_mutex_lock(&cm_lock);
		e = cm_live_add(x);
		if (!e)
			cm_keep(&cm_channels, &x->link);
		pthread_mutex_unlock(&cm_lock);
		if (e)
			CM(destroy_channel, x->handle);
	}
	if (e) {
		close_fds(x);
		free(x);
		errno = e;
		return NULL;
	}
	return &x->channel;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	return cm_devices_open() ? NULL : cm_channel_new(true);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cm_channel *x = cm_channel_of(channel);
	if (!x)
		return;
	pthread_mutex_lock(&cm_lock);
	cm_live_remove(x);
	cm_drop(&x->link);
	pthread_mutex_unlock(&cm_lock);
	if (!cm_of_parent(x->born) && x->handle && !goroce_foreign(x->born))
		CM(destroy_channel, x->handle);
	close_fds(x);
	free(x);
}

// take_request makes the ID of a connection request. cm_lock is held.
static struct cm_id *take_request(struct cm_id *listener, const struct goroce_cm_event *g)
{
	struct cm_id *x = cm_id_new(listener->id.channel, listener->id.context, listener->id.ps, listener->id.qp_type);
	if (!x)
		return NULL;
	x->handle = g->id;
	x->step = CM_USED;
	int e = cm_live_add(x);
	if (!e)
		cm_keep(&cm_ids, &x->link);
	if (!e)
		e = CM(adopt, g->id, (uintptr_t)x);
	if (e) {
		cm_live_remove(x);
		cm_drop(&x->link);
		cm_id_free(x);
		return NULL;
	}
	x->initiator_depth = g->conn.initiator_depth;
	x->responder_resources = g->conn.responder_resources;
	x->remote_ece.vendor_id = g->conn.ece_vendor;
	x->remote_ece.options = g->conn.ece_options;
	return x;
}

// next_event takes an event from the Go half and finds whom it is about. It is one step for all threads: once an
// event has left the Go half, rdma_destroy_id waits until it is acknowledged. EAGAIN: there is none.
static int next_event(struct cm_channel *c, struct cm_event *e, struct goroce_cm_event *g)
{
	pthread_mutex_lock(&cm_lock);
	int err = CM(next, c->handle, g);
	if (err)
		goto out;
	struct cm_id *x = (struct cm_id *)(uintptr_t)g->cookie;
	e->owner = x;
	e->event.id = &x->id;
	e->event.event = (enum rdma_cm_event_type)g->type;
	e->event.status = g->status;
	if (g->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct cm_id *n = take_request(x, g);
		if (!n) {
			CM(destroy_id, g->id);
			err = ENOMEM;
			goto out;
		}
		e->event.listen_id = &x->id;
		e->event.id = &n->id;
	}
	if (g->group) {
		e->group = (struct cm_group *)(uintptr_t)g->group;
		e->group->reported++;
	}
	x->reported++;
out:
	pthread_mutex_unlock(&cm_lock);
	return err;
}

static void acknowledge(struct cm_event *e)
{
	pthread_mutex_lock(&cm_lock);
	if (e->group)
		e->group->acked++;
	e->owner->acked++;
	pthread_cond_broadcast(&e->owner->all_acked);
	pthread_mutex_unlock(&cm_lock);
}

// copy_param makes what the peer said visible to the program.
static void copy_param(struct cm_event *e, const struct goroce_cm_event *g)
{
	const void *data = NULL;
	if (g->type == CM_EVENT_USER) { // where newer headers have arg in the union
		memcpy(&e->event.param, &g->arg, sizeof g->arg);
		return;
	}
	if (g->private_data_len) {
		memcpy(e->private_data, g->private_data, g->private_data_len);
		data = e->private_data;
	}
	if (cm_is_ud(&e->owner->id)) {
		struct rdma_ud_param *u = &e->event.param.ud;
		u->private_data = e->group ? e->group->context : data;
		u->private_data_len = (uint8_t)g->private_data_len;
		u->ah_attr = g->ah;
		u->qp_num = g->conn.qp_num;
		u->qkey = g->conn.qkey;
		return;
	}
	struct rdma_conn_param *p = &e->event.param.conn;
	p->private_data = data;
	p->private_data_len = (uint8_t)g->private_data_len;
	p->responder_resources = g->conn.responder_resources;
	p->initiator_depth = g->conn.initiator_depth;
	p->flow_control = g->conn.flow_control;
	p->retry_count = g->conn.retry_count;
	p->rnr_retry_count = g->conn.rnr_retry_count;
	p->srq = g->conn.srq;
	p->qp_num = g->conn.qp_num;
}

// fail turns an event into one that says that a step came to nothing.
static void fail(struct cm_event *e, enum rdma_cm_event_type type, int err)
{
	e->event.event = type;
	e->event.status = -err;
}

// joined attaches the queue pair to a group that was joined.
static int joined(struct cm_event *e)
{
	struct cm_group *m = e->group;
	struct ibv_qp *qp = e->owner->id.qp;
	m->gid = e->event.param.ud.ah_attr.grh.dgid;
	if (!qp || m->flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return 0;
	int err = ibv_attach_mcast(qp, &m->gid, 0);
	m->attached = !err;
	return err;
}

// cm_unpolled also counts completions of sends, unless the program has ended the connection by itself: it may have no use for them then.
int cm_unpolled(uint64_t cookie)
{
	struct cm_id *x = (struct cm_id *)(uintptr_t)cookie;
	struct ibv_qp *qp = x && !x->sync ? __atomic_load_n(&x->id.qp, __ATOMIC_RELAXED) : NULL;
	if (!qp)
		return 0;
	return goroce_qp_unpolled(qp, false) || (!__atomic_load_n(&x->ended, __ATOMIC_RELAXED) && goroce_qp_unpolled(qp, true));
}

// process does what an event entails before the program sees it. It returns false for one that is no news.
static bool process(struct cm_event *e, const struct goroce_cm_event *g)
{
	struct cm_id *x = e->owner;
	int err;
	copy_param(e, g);
	switch (e->event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (x->again_addr) {
			x->again_addr = false;
			return false;
		}
		err = cm_id_refresh(x);
		if (err)
			fail(e, RDMA_CM_EVENT_ADDR_ERROR, err);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (x->again_route) {
			x->again_route = false;
			return false;
		}
		err = cm_id_path(x);
		if (err)
			fail(e, RDMA_CM_EVENT_ROUTE_ERROR, err);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST: {
		struct cm_id *n = (struct cm_id *)e->event.id;
		err = cm_id_refresh(n);
		if (!err)
			err = cm_id_path(n);
		if (!err && x->sync && rdma_migrate_id(&n->id, NULL))
			err = errno;
		if (err) {
			rdma_destroy_id(&n->id);
			return false;
		}
		break;
	}
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (!x->id.qp) {
			x->remote_ece.vendor_id = g->conn.ece_vendor;
			x->remote_ece.options = g->conn.ece_options;
			break;
		}
		err = cm_connected(x, &g->conn);
		if (err) {
			x->connect_failed = true;
			fail(e, RDMA_CM_EVENT_CONNECT_ERROR, err);
		} else {
			e->event.event = RDMA_CM_EVENT_ESTABLISHED;
		}
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (x->connect_failed)
			return false;
		cm_qp_to_err(x);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (x->connect_failed)
			return false;
		// libfabric ends the queue pair now, and looks for what came before afterwards.
		if (cm_unpolled(g->cookie) && !CM(hold, x->handle))
			return false; // it comes again
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		err = joined(e);
		if (err)
			fail(e, RDMA_CM_EVENT_MULTICAST_ERROR, err);
		break;
	default:
		break;
	}
	return true;
}

// wait_event waits until there may be an event: 0, or -1 with errno. Of several threads that do not wait one gets it: the
// eventfd itself waits, also if the set of epoll in front of it does not.
static int wait_event(const struct cm_channel *c)
{
	uint64_t n;
	if (c->event == c->channel.fd || !(fcntl(c->channel.fd, F_GETFL) & O_NONBLOCK))
		return read(c->event, &n, sizeof n) == sizeof n ? 0 : -1;
	struct pollfd p = {.fd = c->event, .events = POLLIN};
	pthread_mutex_lock(&cm_lock);
	bool got = poll(&p, 1, 0) == 1 && read(c->event, &n, sizeof n) == sizeof n;
	pthread_mutex_unlock(&cm_lock);
	errno = EAGAIN;
	return got ? 0 : -1;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct cm_channel *c = cm_channel_of(channel);
	if (!c)
		return -1;
	if (!event)
		return cm_result(EINVAL);
	if (cm_foreign(&c->born) || !c->handle)
		return cm_result(ENODEV);
	struct goroce_cm_event g;
	struct cm_event *e = malloc(sizeof *e);
	if (!e)
		return cm_result(ENOMEM);
	for (;;) {
		memset(e, 0, sizeof *e);
		int err = next_event(c, e, &g);
		if (err == EAGAIN) {
			// As the kernel: interrupted by a signal whose handler was set without SA_RESTART, and EAGAIN if
			// the descriptor says so.
			if (!wait_event(c)) {
				CM(drained, c->handle);
				continue;
			}
			err = errno;
		}
		if (err) {
			free(e);
			return cm_result(err);
		}
		if (process(e, &g))
			break;
		acknowledge(e);
	}
	pthread_mutex_lock(&cm_lock);
	int err = cm_live_add(e);
	pthread_mutex_unlock(&cm_lock);
	if (err) {
		acknowledge(e);
		free(e);
		return cm_result(err);
	}
	*event = &e->event;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_event *e = (struct cm_event *)event;
	pthread_mutex_lock(&cm_lock);
	bool has = cm_live_has(e);
	cm_live_remove(e);
	pthread_mutex_unlock(&cm_lock);
	if (!has)
		return cm_result(EINVAL);
	acknowledge(e);
	free(e);
	return 0;
}
