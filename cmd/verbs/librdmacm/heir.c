// What the child of a fork has of channels and identifiers of its parent: they are made again when it first uses one, as the objects of
// libibverbs are (heir.c there). One that listens goes on to listen, when its parent has gone or at once; one that has asked for a connection, or was made for one,
// stays with the parent, as the connection does.
#include "cm.h"

static pthread_mutex_t inheriting = PTHREAD_MUTEX_INITIALIZER;
static unsigned int generation; // of what there is
struct cm_link *cm_channels, *cm_ids;

void cm_keep(struct cm_link **list, struct cm_link *l)
{
	l->next = *list;
	l->at = list;
	if (l->next)
		l->next->at = &l->next;
	*list = l;
}

void cm_drop(struct cm_link *l)
{
	if (!l->at)
		return;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	l->at = NULL;
}

void cm_heir_lock(void)
{
	pthread_mutex_lock(&inheriting);
	cm_devices_lock();
}

void cm_heir_unlock(void)
{
	cm_devices_unlock();
	pthread_mutex_unlock(&inheriting);
}

static int set_options(struct cm_id *x)
{
	int e = 0;
	for (int name = 0; name < (int)(sizeof x->set / sizeof *x->set) && !e; name++) {
		if (!x->set[name])
			continue;
		int v = x->set[name] - 1;
		uint8_t b = (uint8_t)v;
		bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
		e = CM(set_option, x->handle, RDMA_OPTION_ID, name, byte ? (void *)&b : (void *)&v, byte ? sizeof b : sizeof v);
	}
	return e;
}

// again makes an identifier, and takes it to where it was.
static int again(struct cm_id *x)
{
	const struct sockaddr *src = &x->id.route.addr.src_addr, *dst = &x->id.route.addr.dst_addr;
	x->handle = 0;
	if (x->step == CM_USED)
		return 0;
	int e = CM(create_id, ((struct cm_channel *)x->id.channel)->handle, x->id.ps, x->id.qp_type, (uintptr_t)x, &x->handle);
	if (!e)
		e = set_options(x);
	if (e)
		return e;
	switch (x->step) {
	case CM_BOUND:
		return CM(bind_addr, x->handle, src);
	case CM_LISTENS:
		e = CM(bind_addr, x->handle, src);
		return e ? e : CM(listen_id, x->handle, x->backlog, goroce_parent());
	case CM_ADDR:
	case CM_ROUTE:
		e = CM(resolve_addr, x->handle, src, dst);
		x->again_addr = !e;
		if (!e && x->step == CM_ROUTE) {
			e = CM(resolve_route, x->handle);
			x->again_route = !e;
		}
		return e;
	default:
		return 0;
	}
}

static int inherit(void)
{
	int e = goroce_inherit();
	if (!e)
		e = cm_load();
	if (!e)
		e = cm_devices_again();
	if (e) {
		cm_devices_forget();
		return 0; // the child can open devices of its own
	}
	pthread_mutex_lock(&cm_lock);
	for (struct cm_link *l = cm_channels; l; l = l->next) {
		struct cm_channel *c = CM_OBJECT(l, struct cm_channel);
		if (cm_of_parent(c->born) && !cm_channel_again(c))
			__atomic_store_n(&c->born, goroce_generation(), __ATOMIC_RELEASE);
	}
	for (struct cm_link *l = cm_ids; l; l = l->next) {
		struct cm_id *x = CM_OBJECT(l, struct cm_id);
		if (!cm_of_parent(x->born) || cm_of_parent(((struct cm_channel *)x->id.channel)->born))
			continue;
		if (again(x) && x->handle) {
			CM(destroy_id, x->handle);
			x->handle = 0;
		}
		__atomic_store_n(&x->born, goroce_generation(), __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&cm_lock);
	return 0;
}

// cm_inherit makes what a parent has made, if there is a parent and it has made something.
int cm_inherit(void)
{
	int e = 0;
	pthread_mutex_lock(&inheriting);
	unsigned int now = goroce_generation();
	if (generation != now) {
		generation = now;
		goroce_foreign(now); // the thread is to be known to Go
		e = inherit();
	}
	pthread_mutex_unlock(&inheriting);
	return e;
}

bool cm_foreign(const unsigned int *born)
{
	if (cm_of_parent(__atomic_load_n(born, __ATOMIC_ACQUIRE)))
		cm_inherit();
	return goroce_foreign(*born);
}
