// The devices of libibverbs, as the communication manager sees them.
#include "cm.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct cm_device *devices; // with a context, in the order in which the Go half has them
static int count;
static bool opened;

void cm_devices_lock(void) { pthread_mutex_lock(&mutex); }
void cm_devices_unlock(void) { pthread_mutex_unlock(&mutex); }

// open_one opens a device and makes it known to the Go half.
static int open_one(struct ibv_device *from, struct cm_device *d)
{
	struct ibv_device_attr attr;
	d->verbs = ibv_open_device(from);
	if (!d->verbs)
		return errno;
	int e = ibv_query_device(d->verbs, &attr);
	if (!e)
		e = CM(add_device, goroce_context_handle(d->verbs), cm_helper());
	if (e) {
		ibv_close_device(d->verbs);
		return e;
	}
	d->max_initiator_depth = (uint8_t)(attr.max_qp_init_rd_atom > 255 ? 255 : attr.max_qp_init_rd_atom);
	d->max_responder_resources = (uint8_t)(attr.max_qp_rd_atom > 255 ? 255 : attr.max_qp_rd_atom);
	return 0;
}

// open_all opens what can be opened: a device that cannot is none, as a dead one is for rdma-core.
static int open_all(void)
{
	int n, e = ENODEV;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list)
		return errno;
	struct cm_device *all = n ? calloc((size_t)n, sizeof *all) : NULL;
	if (n && !all)
		e = ENOMEM;
	for (int i = 0; all && i < n; i++) {
		int failed = open_one(list[i], &all[count]);
		if (!failed)
			count++;
		else
			e = failed;
	}
	ibv_free_device_list(list);
	if (!count) {
		free(all);
		return e;
	}
	devices = all;
	opened = true;
	return 0;
}

int cm_devices_again(void)
{
	int e = 0;
	for (int i = 0; i < count && !e; i++)
		e = CM(add_device, goroce_context_handle(devices[i].verbs), cm_helper());
	return e;
}

void cm_devices_forget(void)
{
	devices = NULL;
	count = 0;
	opened = false;
}

int cm_devices_open(void)
{
	int e = cm_inherit();
	if (!e)
		e = cm_load();
	if (e)
		return cm_result(e);
	pthread_mutex_lock(&mutex);
	if (!opened)
		e = open_all();
	pthread_mutex_unlock(&mutex);
	return cm_result(e);
}

struct cm_device *cm_device_get(int number)
{
	pthread_mutex_lock(&mutex);
	struct cm_device *d = number >= 0 && number < count ? &devices[number] : NULL;
	pthread_mutex_unlock(&mutex);
	return d;
}

struct ibv_pd *cm_device_pd(struct cm_device *d)
{
	pthread_mutex_lock(&mutex);
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	struct ibv_pd *pd = d->pd;
	pthread_mutex_unlock(&mutex);
	return pd;
}

EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	if (cm_devices_open())
		return NULL;
	pthread_mutex_lock(&mutex);
	struct ibv_context **list = calloc((size_t)count + 1, sizeof *list);
	for (int i = 0; list && i < count; i++)
		list[i] = devices[i].verbs;
	if (list && num_devices)
		*num_devices = count;
	pthread_mutex_unlock(&mutex);
	if (!list)
		errno = ENOMEM;
	return list;
}

// The contexts stay open: they belong to librdmacm.
EXPORT void rdma_free_devices(struct ibv_context **list) { free(list); }
