// The devices that there are, and opening them.
#include "shim.h"

#include <arpa/inet.h>
#include <endian.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define MAX_DEVICES 64

static struct {
	pthread_mutex_t mutex;
	bool made;
	int n;
	struct shim_device *all[MAX_DEVICES];
} devices = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// parse_address reads an address, with or without a zone, into 16 bytes of which 4 count for IPv4; it returns
// how many, or 0.
static int parse_address(const char *text, uint8_t raw[16])
{
	char plain[64];
	snprintf(plain, sizeof plain, "%s", text);
	plain[strcspn(plain, "%")] = 0;
	if (inet_pton(AF_INET, plain, raw) == 1)
		return 4;
	return inet_pton(AF_INET6, plain, raw) == 1 ? 16 : 0;
}

// has_address reports whether an entry of getifaddrs is about an address.
static bool has_address(const struct ifaddrs *i, const uint8_t *raw, int n)
{
	if (!i->ifa_addr)
		return false;
	if (n == 4 && i->ifa_addr->sa_family == AF_INET)
		return !memcmp(&((struct sockaddr_in *)i->ifa_addr)->sin_addr, raw, 4);
	if (n == 16 && i->ifa_addr->sa_family == AF_INET6)
		return !memcmp(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, raw, 16);
	return false;
}

// guid_of returns the GUID of the device on an address: the one that the Go half has, which is that of the network
// interface (EUI-64), or made from the address where there is none.
static uint64_t guid_of(const uint8_t *raw, int n)
{
	static const uint8_t none[6];
	struct ifaddrs *list = NULL;
	uint64_t guid = 0;
	if (getifaddrs(&list))
		list = NULL;
	const char *name = NULL;
	for (struct ifaddrs *i = list; i && !name; i = i->ifa_next)
		if (has_address(i, raw, n))
			name = i->ifa_name;
	for (struct ifaddrs *i = list; name && i; i = i->ifa_next) {
		const struct sockaddr_ll *ll = (struct sockaddr_ll *)i->ifa_addr;
		if (!ll || ll->sll_family != AF_PACKET || strcmp(i->ifa_name, name) || ll->sll_halen != 6 ||
		    !memcmp(ll->sll_addr, none, 6))
			continue;
		const uint8_t *m = ll->sll_addr;
		const uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
		memcpy(&guid, eui, 8);
		guid = be64toh(guid);
	}
	if (list)
		freeifaddrs(list);
	if (guid)
		return guid;
	uint64_t h = 0xcbf29ce484222325; // FNV-1a
	for (int i = 0; i < n; i++)
		h = (h ^ raw[i]) * 0x100000001b3;
	return (h & ~(UINT64_C(1) << 56)) | UINT64_C(2) << 56;
}

// add_device adds the device on an address.
static void add_device(const char *addr)
{
	uint8_t raw[16];
	int len = parse_address(addr, raw);
	if (!len) {
		shim_say("GOROCE_ADDR: \"%s\" is not an address: no device for it", addr);
		return;
	}
	if (devices.n == MAX_DEVICES) {
		shim_say("GOROCE_ADDR: no device for %s: there are %d already", addr, MAX_DEVICES);
		return;
	}
	struct shim_device *d = calloc(1, sizeof *d);
	if (!d)
		return;
	struct ibv_device *v = &d->device;
	v->node_type = IBV_NODE_CA;
	v->transport_type = IBV_TRANSPORT_IB;
	snprintf(v->name, sizeof v->name, "goroce%d", devices.n);
	snprintf(v->dev_name, sizeof v->dev_name, "uverbs%d", devices.n);
	snprintf(v->dev_path, sizeof v->dev_path, "/sys/class/infiniband_verbs/uverbs%d", devices.n);
	snprintf(v->ibdev_path, sizeof v->ibdev_path, "/sys/class/infiniband/goroce%d", devices.n);
	snprintf(d->addr, sizeof d->addr, "%s", addr);
	d->guid = guid_of(raw, len);
	devices.all[devices.n++] = d;
}

// add_interfaces adds a device for each global IPv4 address of an interface that is up; if there is none, for the
// loopback address.
static void add_interfaces(void)
{
	struct ifaddrs *list;
	if (!getifaddrs(&list)) {
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
			    i->ifa_flags & IFF_LOOPBACK)
				continue;
			const struct in_addr *a = &((struct sockaddr_in *)i->ifa_addr)->sin_addr;
			if (ntohl(a->s_addr) >> 16 == 0xa9fe) // link-local
				continue;
			char text[INET_ADDRSTRLEN];
			add_device(inet_ntop(AF_INET, a, text, sizeof text));
		}
		freeifaddrs(list);
	}
	if (!devices.n)
		add_device("127.0.0.1");
}

// make_devices reads GOROCE_ADDR once: the devices of a process do not change.
static void make_devices(void)
{
	if (devices.made)
		return;
	devices.made = true;
	const char *env = getenv("GOROCE_ADDR");
	if (!env || !*env) {
		add_interfaces();
		return;
	}
	char *copy = strdup(env), *rest = NULL;
	for (char *a = copy ? strtok_r(copy, ", ", &rest) : NULL; a; a = strtok_r(NULL, ", ", &rest))
		add_device(a);
	free(copy);
}

void shim_devices_lock(void) { pthread_mutex_lock(&devices.mutex); }
void shim_devices_unlock(void) { pthread_mutex_unlock(&devices.mutex); }

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	if (num)
		*num = 0;
	pthread_mutex_lock(&devices.mutex);
	make_devices();
	struct ibv_device **list = calloc((size_t)devices.n + 1, sizeof *list);
	if (list) {
		for (int i = 0; i < devices.n; i++)
			list[i] = &devices.all[i]->device;
		if (num)
			*num = devices.n;
	}
	pthread_mutex_unlock(&devices.mutex);
	if (!list)
		errno = ENOMEM;
	return list;
}

// The devices themselves stay: contexts refer to them, and so may programs after the list is gone.
EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
EXPORT __be64 ibv_get_device_guid(struct ibv_device *d) { return htobe64(to_device(d)->guid); }

EXPORT int ibv_get_device_index(struct ibv_device *d)
{
	int index = -1;
	pthread_mutex_lock(&devices.mutex);
	for (int i = 0; i < devices.n; i++)
		if (&devices.all[i]->device == d)
			index = i;
	pthread_mutex_unlock(&devices.mutex);
	return index;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *d) { return shim_open(to_device(d)); }

// polling reports whether GOROCE_POLLING asks for it.
static bool polling(void)
{
	const char *p = getenv("GOROCE_POLLING");
	return p && *p && strcmp(p, "0") && strcasecmp(p, "false") && strcasecmp(p, "no");
}

// open_core opens a context in the Go half.
static int open_core(struct shim_context *x)
{
	struct ibv_context *c = &x->verbs.context;
	char *link = getenv("GOROCE_LINK");
	struct goroce_open o = {
		.addr = to_device(c->device)->addr, .link = link && *link ? link : NULL, .polling = polling(),
		.async_fd = c->async_fd, .cookie = (uintptr_t)c,
	};
	x->handle = 0;
	int e = CORE(open, &o, &x->handle);
	if (!e)
		e = CORE(query, x->handle, &x->attr);
	if (e && x->handle)
		CORE(close, x->handle);
	return e;
}

int shim_open_again(struct shim_context *x)
{
	int e = goroce_renew(x->verbs.context.async_fd, EFD_SEMAPHORE);
	x->stage = (struct shim_stage){0};
	return e ? e : open_core(x);
}

// shim_set_ops sets the operations of the data path.
void shim_set_ops(struct shim_context *x)
{
	struct ibv_context_ops *ops = &x->verbs.context.ops;
	ops->poll_cq = shim_poll_cq;
	ops->req_notify_cq = shim_req_notify_cq;
	ops->post_send = shim_post_send;
	ops->post_recv = shim_post_recv;
	ops->post_srq_recv = shim_post_srq_recv;
}

struct ibv_context *shim_open(struct shim_device *d)
{
	int e = shim_load();
	if (e)
		return null_errno(e);
	shim_meet();
	shim_check_signals();
	struct shim_context *x = calloc(1, sizeof *x);
	if (!x)
		return null_errno(ENOMEM);
	x->born = shim_generation;
	struct ibv_context *c = &x->verbs.context;
	c->async_fd = shim_eventfd();
	if (c->async_fd < 0) {
		e = errno;
		free(x);
		return null_errno(e);
	}
	c->device = &d->device;
	e = open_core(x);
	if (e) {
		close(c->async_fd);
		free(x);
		return null_errno(e);
	}
	// Programs duplicate it, to import the device elsewhere: that is refused then, and not the descriptor.
	c->cmd_fd = shim_eventfd();
	c->num_comp_vectors = x->attr.comp_vectors;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->mutex, NULL);
	shim_set_ops(x);
	c->ops.alloc_mw = shim_alloc_mw;
	c->ops.dealloc_mw = shim_dealloc_mw;
	c->ops.bind_mw = shim_bind_mw;
	struct verbs_context *v = &x->verbs;
	v->sz = sizeof *v;
	v->query_port = shim_query_port;
	v->query_device_ex = shim_query_device_ex;
	v->query_rt_values = shim_query_rt_values;
	v->create_qp_ex = shim_create_qp_ex;
	v->create_cq_ex = shim_create_cq_ex;
	v->create_srq_ex = shim_create_srq_ex;
	v->get_srq_num = shim_get_srq_num;
	shim_contexts_add(x);
	return c;
}

EXPORT int ibv_close_device(struct ibv_context *c)
{
	struct shim_context *x = to_context(c);
	shim_contexts_remove(x);
	shim_forget(c);
	int e = 0;
	if (!shim_of_parent(c)) {
		shim_meet();
		e = CORE(close, x->handle);
	}
	close(c->async_fd);
	if (c->cmd_fd >= 0)
		close(c->cmd_fd);
	pthread_mutex_destroy(&c->mutex);
	free(x);
	return e;
}
