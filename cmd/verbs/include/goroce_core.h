/*
 * The contract between the two halves of the verbs libraries.
 *
 * libibverbs.so.1 and librdmacm.so.1 are the C half: they own the structures that programs see
 * (ibv_context, ibv_qp, ...), which are those of <infiniband/verbs.h>. libgoroce.so is the Go half: the
 * device itself. The C half loads it when the first device is opened and calls it through
 * struct goroce_core, which goroce_core_table() returns.
 *
 * Handles name the objects of the Go half. They are never 0. A handle of an object that is gone, or is of
 * another kind, is answered with EINVAL.
 *
 * Functions that return int return 0 or an errno, if nothing else is said; none of them sets errno.
 * Any thread may call any function. None of them may be called in the child of a fork.
 */
#ifndef GOROCE_CORE_H
#define GOROCE_CORE_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "goroce_gids.h"

/* Counts the changes of this file: both halves have to be of one build. */
#define GOROCE_CORE_VERSION 10

typedef uint32_t goroce_handle;

/* What a device is opened with. */
struct goroce_open {
	char *addr;    /* the address, as text */
	char *link;    /* "udp", "packet" or "xdp"; NULL is udp */
	int32_t polling; /* the program will poll: see GOROCE_POLLING */
	int32_t async_fd; /* an eventfd of semaphore kind: one count for each asynchronous event */
	uint64_t cookie; /* the C half's: comes back in events */
};

/* What a device is, and what its port is now. */
struct goroce_attr {
	uint64_t guid;
	uint64_t max_mr_bytes;
	uint32_t vendor_id;
	int32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_inline;
	int32_t max_cq, max_cqe, max_mr, max_mw, max_pd;
	int32_t max_qp_rd_atom, max_qp_init_rd_atom;
	int32_t max_ah, max_srq, max_srq_wr, max_srq_sge;
	int32_t ack_delay, comp_vectors, atomic_cap;
	uint32_t max_msg;
	int32_t max_mtu, active_mtu, active;
	char fw_ver[64];
	uint8_t gid[16];
};

struct goroce_mr {
	void *addr;
	uint64_t length;
	uint64_t iova;
	uint32_t access;
	uint32_t key; /* that it is to have; 0: a random one */
	/* results */
	uint32_t lkey, rkey;
	goroce_handle handle;
};

/*
 * The ring of a completion queue, which the C half reads without a call. Completion number i is in slot i & mask.
 * Loads of tail acquire, and stores to head release what is in the slots.
 */
struct goroce_ring_slot {
	struct ibv_wc wc;
	int64_t time; /* ns, of the packets that it came of */
	uint8_t reserved[8];
};
struct goroce_ring {
	uint64_t tail; /* completions that were ever put in: the Go half's */
	uint8_t pad1[56];
	uint64_t head; /* completions that were ever taken: the C half's */
	uint8_t pad2[56];
	uint64_t mask;
	uint32_t state;
	uint8_t pad3[52];
	struct goroce_ring_slot slots[];
};
#define GOROCE_RING_OVERFLOWED 1 /* state: none comes behind those that are in the ring */

struct goroce_cq {
	goroce_handle device;
	goroce_handle channel; /* 0: none */
	int32_t cqe;	       /* in: wanted, out: had */
	int32_t vector;
	uint64_t cookie; /* struct ibv_cq *: comes back in events */
	/* results */
	goroce_handle handle;
	struct goroce_ring *ring; /* until destroy_cq, or resize_cq */
};

/*
 * The ring of a send queue: requests that the program has posted and the Go half has not taken yet, so that it is entered once for
 * many. The C half puts them in, with a lock of its own, which it also holds around the calls that post to the queue or change its
 * state. The Go half takes them out: in any such call, in flush, and by itself when they have waited for 0.1 ms or so.
 *
 * Request number i is in slot i modulo GOROCE_SEND_SLOTS. What is in the ring is posted already to the program: there is no way
 * to refuse it any more. So the C half puts in only what it can tell is right, and no request beyond limit: that much room the
 * queue has. While open is 0 it puts in nothing; a request that came in when the Go half closed the ring is posted by the next call.
 */
#define GOROCE_SEND_SLOTS 128
#define GOROCE_SEND_DATA 96
struct goroce_send_slot {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm_data; /* in network byte order */
	uint8_t opcode;
	uint8_t flags;
	uint8_t num_sge;     /* without IBV_SEND_INLINE */
	uint8_t data_length; /* with it */
	uint8_t reserved[4];
	union {
		struct ibv_sge list[GOROCE_SEND_DATA / sizeof(struct ibv_sge)];
		uint8_t data[GOROCE_SEND_DATA];
	};
};
struct goroce_send_ring {
	uint64_t tail; /* requests that were ever put in: the C half's */
	uint32_t wanted; /* the C half's: many requests have come in succession */
	uint32_t bytes; /* the C half's: of the messages in the ring, and of those taken since it was empty */
	uint8_t pad1[48];
	uint64_t head; /* requests that were ever taken: the Go half's, as what follows */
	uint64_t limit;
	uint32_t open;
	uint8_t pad2[44];
	struct goroce_send_slot slots[GOROCE_SEND_SLOTS];
};

struct goroce_qp {
	goroce_handle pd, send_cq, recv_cq;
	goroce_handle srq; /* 0: none */
	uint32_t type;	   /* enum ibv_qp_type */
	uint32_t sig_all;
	struct ibv_qp_cap cap; /* in: wanted, out: had */
	uint64_t cookie;       /* struct ibv_qp *: comes back in events */
	struct goroce_send_ring *send_ring; /* zeroed, but for the slots, until destroy_qp; NULL: none */
	/* results */
	uint32_t qp_num;
	goroce_handle handle;
};

struct goroce_srq {
	goroce_handle pd;
	struct ibv_srq_attr attr; /* in: wanted, out: had */
	uint64_t cookie;	  /* struct ibv_srq *: comes back in events */
	/* results */
	goroce_handle handle;
};

/* An asynchronous event: its type, and the cookie of the object, or the port number. */
struct goroce_async {
	uint64_t element;
	uint32_t type; /* enum ibv_event_type */
};

struct goroce_core {
	uint32_t version; /* GOROCE_CORE_VERSION */
	uint32_t size;	  /* of this structure */

	void (*started)(void); /* does nothing: a thread that has called it is known to Go */
	void (*run_on)(const cpu_set_t *cpus); /* the CPUs of threads that are made from now on */
	/* disown is the first call in the child of a fork: it closes what is there of the parent's Go half. */
	void (*disown)(void);

	int (*open)(struct goroce_open *o, goroce_handle *device);
	int (*close)(goroce_handle device);
	int (*query)(goroce_handle device, struct goroce_attr *attr);
	/* async_next takes the event that a count of async_fd stands for; ENOENT if there is none. */
	int (*async_next)(goroce_handle device, struct goroce_async *e);

	int (*alloc_pd)(goroce_handle device, goroce_handle *pd);
	int (*dealloc_pd)(goroce_handle pd);

	int (*reg_mr)(goroce_handle pd, struct goroce_mr *mr);
	/* rereg_mr has the flags of ibv_rereg_mr; pd counts with IBV_REREG_MR_CHANGE_PD. */
	int (*rereg_mr)(goroce_handle mr, int flags, goroce_handle pd, struct goroce_mr *a);
	int (*dereg_mr)(goroce_handle mr);

	int (*alloc_mw)(goroce_handle pd, int type, uint32_t *rkey, goroce_handle *mw);
	int (*dealloc_mw)(goroce_handle mw);
	/* bind_mw binds a window of type 1 and makes a completion on qp. */
	int (*bind_mw)(goroce_handle qp, goroce_handle mw, struct ibv_mw_bind *bind, uint32_t *rkey);

	/* fd is an eventfd of semaphore kind: one count for each event, and for packets that thread receives: see channel_next. */
	int (*create_channel)(goroce_handle device, int fd, goroce_handle *channel);
	int (*destroy_channel)(goroce_handle channel);
	/* channel_next takes the event that a count of fd stands for: the cookie of a CQ; ENOENT if there is none. thread is the caller, which
	 * may have to receive. */
	int (*channel_next)(goroce_handle channel, int thread, uint64_t *cq);
	/* channel_look is channel_next before a count is read, for a thread that is about to sleep until there is one. It receives for as long
	 * as that costs less than a sleep. first: the program has just called, and has an event if epoll may have told it of a count. */
	int (*channel_look)(goroce_handle channel, int thread, int first, uint64_t *cq);

	int (*create_cq)(struct goroce_cq *cq);
	/* destroy_cq tells how many events of the CQ channel_next and async_next have returned. */
	int (*destroy_cq)(goroce_handle cq, uint32_t *comp_events, uint32_t *async_events);
	/* resize_cq must not run beside a look at the ring. */
	int (*resize_cq)(goroce_handle cq, int *cqe, struct goroce_ring **ring);
	int (*req_notify_cq)(goroce_handle cq, int solicited_only);
	/* progress does what a program may expect of a poll that has found nothing: packets are received and sent. So many threads of the
	 * program poll. */
	void (*progress)(goroce_handle cq, unsigned int threads);

	int (*create_qp)(struct goroce_qp *qp);
	int (*destroy_qp)(goroce_handle qp, uint32_t *async_events);
	int (*modify_qp)(goroce_handle qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(goroce_handle qp, struct ibv_qp_attr *attr);
	/* flush posts what is in the rings of the send queues of a device. */
	void (*flush)(goroce_handle device);
	/* send_room raises the limit of the ring of a send queue by the requests that have ended. It posts nothing. */
	void (*send_room)(goroce_handle qp);
	/* finish waits until what was posted is acknowledged, as long as it is, before the process ends. It counts while it waits. */
	void (*finish)(uint32_t *beat);
	/* post_*: on an error *bad is the first request that was not posted. Sends come behind what is in the ring; NULL is no request. */
	int (*post_send)(goroce_handle qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(goroce_handle qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*attach_mcast)(goroce_handle qp, union ibv_gid *group);
	int (*detach_mcast)(goroce_handle qp, union ibv_gid *group);

	int (*create_srq)(struct goroce_srq *srq);
	int (*destroy_srq)(goroce_handle srq, uint32_t *async_events);
	int (*modify_srq)(goroce_handle srq, struct ibv_srq_attr *attr, int mask);
	int (*query_srq)(goroce_handle srq, struct ibv_srq_attr *attr);
	int (*post_srq_recv)(goroce_handle srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

	int (*create_ah)(goroce_handle pd, struct ibv_ah_attr *attr, goroce_handle *ah);
	int (*destroy_ah)(goroce_handle ah);
};

/* The one symbol that the C half looks up in libgoroce.so. It waits until the Go runtime has begun. */
const struct goroce_core *goroce_core_table(void);
typedef const struct goroce_core *goroce_core_table_fn(void);

#endif
