/*
 * What libibverbs.so.1 exports besides verbs, in version node GOROCE_1: for librdmacm.so.1 of the same build.
 */
#ifndef GOROCE_SHIM_PUBLIC_H
#define GOROCE_SHIM_PUBLIC_H

#include "goroce_core.h"

/* goroce_core_get loads the Go half if need be; NULL, and one line on standard error, if it cannot be loaded. */
const struct goroce_core *goroce_core_get(void);

/* goroce_core_symbol finds another function of the Go half, such as the table of RDMA-CM. */
void *goroce_core_symbol(const char *name);
/* goroce_finish_by runs a function of the Go half that ends something, at the end of the process. */
void goroce_finish_by(void (*finish)(uint32_t *beat));

/* goroce_foreign has to be called before each call of the Go half, by every function that a program calls. It reports
 * whether an object is one of a process that this one was forked from, whose Go half is not here, and which has not been made again: calls
 * are to fail with ENODEV then. Otherwise the thread is known to Go afterwards. generation is what
 * goroce_generation has returned when the object was made. */
int goroce_foreign(unsigned int generation);
unsigned int goroce_generation(void);

/* For the child of a fork, see heir.c. goroce_inherit makes the contexts that the parent has made, and what belongs to them: 0 or an errno. goroce_renew
 * makes an eventfd of the parent one of the child, with flags of eventfd: 0 or an errno. goroce_life is a descriptor that a child of this process can read when this
 * process has gone, goroce_parent the one of its parent; -1: there is none. */
int goroce_inherit(void);
int goroce_renew(int fd, int flags);
int goroce_life(void);
int goroce_parent(void);

/* The handles of objects in the Go half. */
goroce_handle goroce_context_handle(struct ibv_context *context);
goroce_handle goroce_pd_handle(struct ibv_pd *pd);
goroce_handle goroce_cq_handle(struct ibv_cq *cq);
goroce_handle goroce_qp_handle(struct ibv_qp *qp);
goroce_handle goroce_srq_handle(struct ibv_srq *srq);

/* goroce_device_addr returns the address of a device, as text. */
const char *goroce_device_addr(struct ibv_device *device);

/* goroce_meet comes before the first call of the Go half by a thread. */
void goroce_meet(void);

/* While goroce_busy is not 0 handlers of signals of this thread wait, and are counted in goroce_late. goroce_catch_up runs them. */
extern __thread volatile int goroce_busy __attribute__((tls_model("initial-exec")));
extern __thread volatile uint64_t goroce_late __attribute__((tls_model("initial-exec")));

/* goroce_handled counts handlers that this thread has called; goroce_was_stopped reports whether EINTR had another reason since then. */
extern __thread volatile unsigned int goroce_handled __attribute__((tls_model("initial-exec")));
extern bool goroce_was_stopped(unsigned int handled);
void goroce_catch_up(void);
static inline int goroce_left(int result)
{
	if (__builtin_expect(!--goroce_busy && goroce_late, 0))
		goroce_catch_up();
	return result;
}

/* goroce_qp_unpolled reports whether there are messages for a queue pair that the program has not polled yet, or completions of its
   sends; false if it is destroyed. */
bool goroce_qp_unpolled(struct ibv_qp *qp, bool sends);

#endif
