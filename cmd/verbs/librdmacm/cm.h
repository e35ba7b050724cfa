/*
 * What the files of librdmacm.so.1 share: the structures behind those that programs see, and how they get at
 * the Go half.
 */
#ifndef GOROCE_LIBRDMACM_H
#define GOROCE_LIBRDMACM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "../include/goroce_cm.h"
#include "../include/goroce_rs.h"
#include "../include/goroce_shim.h"

/* What rdma-core's headers have since 57, and those of Debian 12 not. */
#define CM_EVENT_ADDRINFO_RESOLVED 16
#define CM_EVENT_USER 18
#define CM_RAI_SA 0x10
#define CM_RAI_DNS 0x20

#define EXPORT __attribute__((visibility("default")))

/* load.c: the Go half. cm and rs are NULL until cm_load was called. */
extern const struct goroce_cm *cm;
extern const struct goroce_rs *rs;
int cm_load(void); /* 0 or an errno */
const char *cm_helper(void);

/* heir.c: for the child of a fork. cm_foreign reports whether an object, by the generation of the process that has made it, is one of a parent, and
 * could not be made again here. It takes the place of goroce_foreign. */
bool cm_foreign(const unsigned int *born);
static inline bool cm_of_parent(unsigned int born) { return born != goroce_generation(); }
int cm_inherit(void);
void cm_heir_lock(void);
void cm_heir_unlock(void);
struct cm_link {
	struct cm_link *next, **at; /* under cm_lock */
};
extern struct cm_link *cm_channels, *cm_ids;
void cm_keep(struct cm_link **list, struct cm_link *l); /* cm_lock is held, for both */
void cm_drop(struct cm_link *l);
#define CM_OBJECT(l, type) ((type *)((char *)(l) - offsetof(type, link)))
void cm_devices_lock(void); /* device.c: around a fork */
void cm_devices_unlock(void);
int cm_devices_again(void);   /* device.c: makes the devices known again; 0 or errno */
void cm_devices_forget(void); /* device.c: they could not be opened again */

/*
 * CM calls the Go half. Every function of the program's has called cm_foreign before that: cm_id_of does. A handler of a signal that comes
 * meanwhile waits until the call is over: see libibverbs/signals.c. No call of these waits.
 */
#define CM(name, ...) (goroce_meet(), goroce_busy++, goroce_left(cm->name(__VA_ARGS__)))
goroce_cm_unpolled_fn cm_unpolled;

/*
 * RS calls it for rsockets: rs_of, rpoll and cm_load have the thread met. Handlers wait as well: one may leave for good (longjmp), as iperf3's
 * does. No call of these waits.
 */
#define RS(name, ...) (goroce_busy++, goroce_left(rs->name(__VA_ARGS__)))

/* cm_result makes 0 or an errno the result of a function of librdmacm. */
static inline int cm_result(int e)
{
	if (!e)
		return 0;
	errno = e;
	return -1;
}

/* device.c: the devices of libibverbs, opened when the first ID is made. Their order is theirs there. */
struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd;	   /* of IDs whose program brings none */
	uint8_t max_initiator_depth, max_responder_resources;
};
int cm_devices_open(void);		     /* 0 or -1 with errno */
struct cm_device *cm_device_get(int number); /* NULL if there is none */
struct ibv_pd *cm_device_pd(struct cm_device *d);

/*
 * cm_lock guards what the structures below say it does, and the set of objects that exist (live.c).
 */
extern pthread_mutex_t cm_lock;

/* live.c: the objects that the program may name. cm_lock is held, but for cm_live. */
int cm_live_add(const void *object); /* 0 or an errno */
void cm_live_remove(const void *object);
bool cm_live_has(const void *object);
bool cm_live(const void *object);

/* channel.c */
struct cm_channel {
	struct rdma_event_channel channel;
	unsigned int born; /* see cm_foreign */
	goroce_handle handle;
	int event; /* the eventfd. The descriptor of the channel is that, or a set of epoll with it and goroce_life */
	struct cm_link link;
};
struct cm_channel *cm_channel_of(struct rdma_event_channel *c); /* NULL with EINVAL */
struct rdma_event_channel *cm_channel_new(bool watched); /* by the program */
int cm_channel_again(struct cm_channel *x); /* 0 or errno */

struct cm_group { /* a multicast group that an ID has joined */
	struct cm_group *next;
	struct cm_id *id;
	void *context;
	union ibv_gid gid;
	struct sockaddr_storage addr;
	uint32_t flags;
	bool attached;
	unsigned reported, acked; /* under cm_lock */
};

struct cm_id {
	struct rdma_cm_id id;
	unsigned int born; /* see cm_foreign */
	goroce_handle handle;
	/* For heir.c: how far it has come, and what was set. */
	enum { CM_NEW, CM_BOUND, CM_LISTENS, CM_ADDR, CM_ROUTE, CM_USED } step;
	int backlog, set[RDMA_OPTION_ID_ACK_TIMEOUT + 1]; /* options, + 1; 0: not set */
	bool again_addr, again_route; /* an event is no news */
	struct cm_link link;
	struct cm_device *device; /* NULL: none yet */
	bool sync;		  /* made without channel: calls wait for their event */
	bool connect_failed;	  /* the program was told so: what else comes of the attempt is no news */
	bool ended;		  /* by rdma_disconnect */
	uint8_t initiator_depth, responder_resources;
	struct ibv_ece local_ece, remote_ece;
	struct ibv_qp_init_attr *qp_attr; /* of a passive endpoint: for the queue pairs of its requests */
	void *connect_data;		  /* private data from rdma_addrinfo, before that of the program */
	size_t connect_len;
	struct rdma_addrinfo *found; /* of rdma_resolve_addrinfo, until rdma_query_addrinfo takes it; under cm_lock, as is: */
	bool finding;
	struct cm_group *groups;
	unsigned reported, acked; /* events that the program was given, and has acknowledged; under cm_lock */
	pthread_cond_t all_acked;
};
struct cm_id *cm_id_of(struct rdma_cm_id *id);	       /* NULL with EINVAL if there is no such ID */
struct cm_id *cm_id_on_device(struct rdma_cm_id *id); /* NULL with EINVAL also if it has no device yet */
struct cm_id *cm_id_new(struct rdma_event_channel *c, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
void cm_id_free(struct cm_id *x);
int cm_id_create(struct rdma_event_channel *c, struct rdma_cm_id **id, void *context, enum rdma_port_space ps,
		 enum ibv_qp_type type);
int cm_id_refresh(struct cm_id *x); /* takes over addresses and device; 0 or an errno */
int cm_id_path(struct cm_id *x);    /* fills in the path record; 0 or an errno */
int cm_id_complete(struct cm_id *x);
static inline bool cm_is_ud(const struct rdma_cm_id *id) { return id->qp_type == IBV_QPT_UD; }
int cm_addrlen(const struct sockaddr *a); /* 0 if its family is not ours */

struct cm_event {
	struct rdma_cm_event event;
	struct cm_id *owner;
	struct cm_group *group;
	uint8_t private_data[256];
};

/* qp.c; 0 or an errno */
int cm_qp_move(struct cm_id *x, enum ibv_qp_state to, int depth);
int cm_qp_to_rts(struct cm_id *x, int responder_resources, int initiator_depth);
int cm_qp_to_err(struct cm_id *x);
#define CM_AS_SAID (-1) /* depth: what the two sides have agreed on */
void cm_qp_destroy_cqs(struct rdma_cm_id *id);

/* connect.c: the peer has accepted, an event of the kernel's would say */
int cm_connected(struct cm_id *x, const struct goroce_cm_param *p);

#endif
