/*
 * What the files of libibverbs.so.1 share: the structures behind those that programs see, and how they get at
 * the Go half.
 */
#ifndef GOROCE_SHIM_H
#define GOROCE_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <infiniband/verbs.h>
/* The header hides these functions behind inline ones; here they are defined. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include <errno.h>
#include <sys/eventfd.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../include/goroce_core.h"
#include "../include/goroce_shim.h"
#include "signals.h"

#define EXPORT __attribute__((visibility("default")))

// LATER declares later_NAME, which the linker knows as NAME: a function of later releases than 44, which the headers of this
// build may declare or not.
#define LATER(type, name, parameters) EXPORT type later_##name parameters __asm__(#name)

/* IN_PRIVATE_NODES exports name_any as name in the private nodes of all releases: see private.c. */
#define IN_NODE(name, at, node) \
	extern __typeof__(name##_any) name##_##node __attribute__((alias(#name "_any"), visibility("default"))); \
	__asm__(".symver " #name "_" #node ", " #name at "IBVERBS_PRIVATE_" #node);
#define IN_PRIVATE_NODES(name) \
	IN_NODE(name, "@@", 34) IN_NODE(name, "@", 57) IN_NODE(name, "@", 59) IN_NODE(name, "@", 64) IN_NODE(name, "@", 65)

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* load.c: the Go half. core is NULL until the first device is opened. */
extern const struct goroce_core *core;
int shim_load(void);
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fork.c: how many of the forks that led to this process found the Go half loaded. Objects of another generation are
 * those of a parent, whose threads are not here. */
extern unsigned int shim_generation;
bool shim_foreign(const struct ibv_context *c); /* and could not be made again here, see heir.c; also says so, once */
static inline bool shim_of_parent(const struct ibv_context *c);
void shim_fork_lock(void);   /* load.c: waits for a Go half that is being loaded */
void shim_fork_unlock(void);
void shim_unload(void);	     /* load.c: in the child */
void shim_devices_lock(void); /* qp.c */
extern unsigned int shim_qps; /* that there are */

/* device.c */
void shim_devices_unlock(void);

/* CORE calls it, CORE_DO a function of it without a result. A handler of a signal that comes meanwhile runs afterwards: it may call
 * verbs by itself, and Go knows no calls in calls. No call waits for an event. */
#define CORE(name, ...) (goroce_busy++, goroce_left(core->name(__VA_ARGS__)))
#define CORE_DO(name, ...) (goroce_busy++, core->name(__VA_ARGS__), (void)goroce_left(0))

/* Every function that calls the Go half begins with one of these, and the context that the call is about. */
#define ENTER_INT(context) do { if (UNLIKELY(shim_foreign(context))) return ENODEV; shim_meet(); } while (0)
#define ENTER_NULL(context) do { if (UNLIKELY(shim_foreign(context))) { errno = ENODEV; return NULL; } shim_meet(); } while (0)
#define ENTER_MINUS(context) do { if (UNLIKELY(shim_foreign(context))) { errno = ENODEV; return -1; } shim_meet(); } while (0)

/* signals.c: how many handlers without SA_RESTART this thread has called */
extern __thread volatile unsigned int shim_interrupted __attribute__((tls_model("initial-exec")));

/* heir.c: what there is, for the child of a fork, in the order in which it can be made */
enum shim_kind { SHIM_PD, SHIM_CHANNEL, SHIM_MR, SHIM_MW, SHIM_AH, SHIM_CQ, SHIM_SRQ, SHIM_QP, SHIM_KINDS };
struct shim_link {
	struct shim_link *next, **at; /* at: what points here; NULL: it is in no list */
};
void shim_keep(enum shim_kind kind, struct shim_link *l);
void shim_drop(struct shim_link *l);
void shim_forget(const struct ibv_context *c);
void shim_heir_lock(void); /* before the locks of other files */
void shim_heir_unlock(void);
void shim_heir_begin(void);
void shim_heir_forked(void);

/* device.c */
struct shim_device {
	struct ibv_device device;
	char addr[64];
	uint64_t guid; /* host order */
};

struct shim_context {
	goroce_handle handle;
	unsigned int born; /* the generation of the process that has opened it */
	struct goroce_attr attr;
	struct shim_context *next; /* of all that are open, for fork.c */
	struct shim_stage {	   /* stage.c */
		bool busy;	     /* something was posted since a poll has found nothing */
		bool full;	     /* some of that is in rings */
		unsigned int pauses; /* such polls */
	} stage;
	struct verbs_context verbs;
};
struct ibv_context *shim_open(struct shim_device *d);
int shim_open_again(struct shim_context *x); /* opens it in the child of a fork; 0 or errno */
void shim_set_ops(struct shim_context *x);

static inline struct shim_context *to_context(struct ibv_context *c)
{
	return (struct shim_context *)((char *)c - offsetof(struct shim_context, verbs.context));
}
static inline struct shim_device *to_device(struct ibv_device *d) { return (struct shim_device *)d; }

static inline bool shim_of_parent(const struct ibv_context *c)
{
	return UNLIKELY(__atomic_load_n(&to_context((struct ibv_context *)c)->born, __ATOMIC_ACQUIRE) != shim_generation);
}

/* fork.c: a list of the open contexts. */
struct shim_context *shim_contexts(void);
void shim_contexts_add(struct shim_context *c);
void shim_contexts_remove(struct shim_context *c);

/* cq.c */
struct shim_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	goroce_handle handle;
	struct goroce_ring *ring; /* under lock */
	unsigned char lock;	  /* one thread takes at a time */
	bool single_threaded;	  /* the program promises that it does so by itself */
	unsigned int looks;	  /* in vain; that threads may lose counts does not matter */
	/* cq_ex.c: what start_poll and next_poll have found */
	struct ibv_wc *wc;
	uint64_t head;
	int vector;
	struct shim_link link;
};
static inline struct shim_cq *to_cq(struct ibv_cq *c) { return (struct shim_cq *)c; }
struct shim_cq *shim_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector);
int shim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool shim_cq_over(const struct shim_cq *q); /* nothing will ever come. Under lock: ibv_resize_cq replaces the ring */
int shim_cq_idle(struct shim_cq *q, bool over); /* after a look that has found nothing, without the lock: 0, or -1 if it is over */
/* Drops the completions of a queue pair; with keep_sent not those of requests that have succeeded. */
void shim_cq_forget(struct shim_cq *q, uint32_t qpn, bool keep_sent);
bool shim_cq_unpolled(struct shim_cq *q, uint32_t qpn, bool sends); /* a message of a queue pair waits there, or that a request is done */
static inline bool shim_ring_empty(const struct goroce_ring *r)
{
	return __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == r->head;
}
/* Handlers of signals wait while a lock is held, too: they may want it. */
static inline void shim_cq_lock(struct shim_cq *q)
{
	goroce_busy++;
	while (!q->single_threaded && __atomic_exchange_n(&q->lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&q->lock, __ATOMIC_RELAXED))
			sched_yield();
}
static inline void shim_cq_unlock(struct shim_cq *q)
{
	__atomic_store_n(&q->lock, 0, __ATOMIC_RELEASE);
	goroce_left(0);
}
struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);

struct shim_channel {
	struct ibv_comp_channel channel;
	goroce_handle handle;
	struct shim_link link;
};
static inline struct shim_channel *to_channel(struct ibv_comp_channel *c) { return (struct shim_channel *)c; }

/* qp.c */
struct shim_batch;
struct shim_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		struct {
			char older[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
			/* The last one in headers of rdma-core 45 and later, which call it by its place. */
			void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t n, uint8_t type, uint8_t level);
		};
	};
	goroce_handle handle;
	struct ibv_qp_init_attr init; /* what ibv_query_qp returns */
	struct shim_batch *batch;     /* qp_ex.c: requests of ibv_wr_*; NULL for one that was not made for them */
	/* stage.c */
	struct goroce_send_ring *ring; /* NULL: there is none */
	unsigned char send_lock;       /* of who posts, or changes the state */
	unsigned int pause, run;       /* calls that posted since a pause, by its number */
	/* For heir.c: what has taken it to where it is, before it had a peer. */
	struct ibv_qp_attr attr;
	int attr_mask;
	struct shim_link link;
};
static inline struct shim_qp *to_qp(struct ibv_qp *q) { return (struct shim_qp *)q; }
struct ibv_qp *shim_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
int shim_batch_init(struct shim_qp *q, uint64_t ops); /* qp_ex.c; 0 or errno */
void shim_batch_free(struct shim_qp *q);

/* post.c */
int shim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int shim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* stage.c: requests that wait in memory for the Go half */
void shim_stage_init(struct shim_qp *q);
/* shim_stage puts all requests into the ring, or none. */
bool shim_stage(struct shim_qp *q, const struct ibv_send_wr *wr);
/* shim_stage_direct is for before a call of post_send. The lock is held, and the memory of wr was read before. */
void shim_stage_direct(struct shim_qp *q, const struct ibv_send_wr *wr);
void shim_stage_pause(struct shim_context *c);
/* Before who posts may wait, or look for something else: what it has posted leaves now. */
static inline void shim_pause(struct ibv_context *c)
{
	if (UNLIKELY(__atomic_load_n(&to_context(c)->stage.busy, __ATOMIC_RELAXED)))
		shim_stage_pause(to_context(c));
}
static inline void shim_send_lock(struct shim_qp *q)
{
	goroce_busy++;
	while (__atomic_exchange_n(&q->send_lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&q->send_lock, __ATOMIC_RELAXED))
			sched_yield();
}
static inline void shim_send_unlock(struct shim_qp *q)
{
	__atomic_store_n(&q->send_lock, 0, __ATOMIC_RELEASE);
	goroce_left(0);
}

/* srq.c */
struct shim_srq {
	struct ibv_srq srq;
	goroce_handle handle;
	uint32_t max_sge;
	struct ibv_srq_attr attr;
	struct shim_link link;
};
static inline struct shim_srq *to_srq(struct ibv_srq *s) { return (struct shim_srq *)s; }
struct ibv_srq *shim_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
int shim_get_srq_num(struct ibv_srq *srq, uint32_t *num);

/* memory.c, ah.c; their handles are in the structures of the program */
struct shim_pd {
	struct ibv_pd pd;
	struct shim_link link;
};
struct shim_mr {
	struct ibv_mr mr;
	uint64_t iova;
	uint32_t access;
	struct shim_link link;
};
struct shim_mw {
	struct ibv_mw mw;
	struct shim_link link;
};
struct shim_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
	struct shim_link link;
};
struct ibv_mw *shim_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shim_dealloc_mw(struct ibv_mw *mw);
int shim_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* attr.c */
int shim_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size);
int shim_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a,
			 size_t size);
int shim_query_rt_values(struct ibv_context *c, struct ibv_values_ex *v);

/* events.c */
int shim_eventfd(void);
void shim_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t reported);

/* null_errno makes the result of a function that returns an errno that of one that returns NULL. */
static inline void *null_errno(int e)
{
	errno = e;
	return NULL;
}

/* set_errno leaves in errno what a function returns, as a call of the kernel does: programs print it. */
static inline int set_errno(int e)
{
	if (e)
		errno = e;
	return e;
}

#endif
