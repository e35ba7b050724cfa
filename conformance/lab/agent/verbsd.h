/*
 * verbsd: the verbs agent, a small server on which a test driver asks for verbs objects over
 * TCP: inside a lab guest, and on any machine whose RDMA device is to be checked. It is the
 * only C in the project, because libibverbs is the only way to devices of the kernel's.
 *
 * Protocol, version 1: lines of text. A request is a command and key=value words; numbers are
 * decimal or 0x hexadecimal. The answer is one line, "ok key=value ..." or
 * "err ERRNO text". Requests may be sent ahead; answers come in order. Each connection
 * is a process of its own, so that its end frees everything.
 *
 * The first request is "hello version=1 token=WORD client=NAME", the second "open dev=NAME";
 * without dev= it is the first device with an active port. Connections of one client may
 * be there at the same time; another client is refused until the last of them has ended.
 *
 * Objects have small numbers that mean something in their connection only. Only memory that
 * "buf" has allocated is ever registered.
 */
#ifndef VERBSD_H
#define VERBSD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum kind { K_FREE, K_PD, K_BUF, K_MR, K_MW, K_CQ, K_SRQ, K_AH, K_QP };

struct object {
	enum kind kind;
	void *p;		/* the verbs object; for K_BUF the memory */
	size_t len;		/* K_BUF, K_MR: bytes */
	uint8_t *addr;		/* K_MR: where the bytes are, whatever the IOVA */
	uint64_t iova;		/* K_MR: address that work requests use */
	struct ibv_comp_channel *channel; /* K_CQ */
	struct ibv_qp_ex *qpx;	/* K_QP, if made with ibv_create_qp_ex */
};

extern struct ibv_context *ctx;
extern const char *dev_name;
extern int peer_fd;	/* the connection */

/* hello.c: who may talk to us. */
#define PROTOCOL 1
void clients_init(void);		/* before the first fork */
int client_slot(void);			/* in the parent: a free one, or of a connection that was ended for it; -1 if there is none */
void client_started(int slot, pid_t pid);
void clients_reap(void);		/* after SIGCHLD */
void client_is(int slot);		/* in the child */
void cmd_hello(void);			/* fails unless the client may go on */
bool greeted(void);
extern const char *agent_token;		/* "" if none is needed */

/* fail answers "err" and abandons the command. */
void fail(int err, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* out appends to the answer. */
void out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Arguments of the current request. */
const char *arg(const char *key);			/* NULL if absent */
const char *arg_nth(const char *key, int n);		/* the nth of several */
const char *need(const char *key);			/* fails if absent */
uint64_t num(const char *key, uint64_t def);
uint64_t need_num(const char *key);
uint64_t parse_num(const char *s);
bool has(const char *key);
void need_gid(const char *key, union ibv_gid *gid);

/* Objects. */
int object_new(enum kind kind, void *p);
struct object *object_get(uint64_t id, enum kind kind);
struct object *need_obj(const char *key, enum kind kind);
struct object *opt_obj(const char *key, enum kind kind); /* NULL if absent */

/* Memory of a buffer: fails unless off and len lie inside. */
uint8_t *span(struct object *buf, uint64_t off, uint64_t len);

struct command {
	const char *name;
	void (*run)(void);
};
extern const struct command object_commands[], qp_commands[], work_commands[], memory_commands[];

#endif
