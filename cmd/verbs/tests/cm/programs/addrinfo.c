// What librdmacm has since rdma-core 57 and 65: lookups that are answered by an event, events of the program's own, and sets of epoll
// for rsockets. The library that a program is linked with may not have them: they are looked up.
#include "check.h"

#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>

#define RESOLVED 16
#define USER 18
#define SA_FLAG 0x10
#define DNS_FLAG 0x20

static int (*resolve)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *);
static int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **);
static int (*write_event)(struct rdma_cm_id *, int, int, uint64_t);
static int (*set_new)(int);
static int (*set_ctl)(int, int, int, struct epoll_event *);
static int (*set_wait)(int, struct epoll_event *, int, int);

static void lookups(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id, *sync;
	struct rdma_cm_event *e;
	struct rdma_addrinfo *found, hints = {.ai_flags = DNS_FLAG | RAI_NUMERICHOST};
	CHECK(ch);
	OK(rdma_create_id(ch, &id, &id, RDMA_PS_TCP));
	FAILS(query(id, &found), ENOENT);
	FAILS(query(id, NULL), EINVAL);
	OK(resolve(id, "127.0.0.2", "7471", &hints));
	FAILS(resolve(id, "127.0.0.2", "7471", &hints), EBUSY);
	OK(rdma_get_cm_event(ch, &e));
	CHECK((int)e->event == RESOLVED && !e->status && e->id == id);
	CHECK(!strcmp(rdma_event_str(e->event), "RDMA_CM_EVENT_ADDRINFO_RESOLVED"));
	OK(rdma_ack_cm_event(e));
	OK(query(id, &found));
	struct sockaddr_in want = addr("127.0.0.2", 7471), *got = (struct sockaddr_in *)found->ai_dst_addr;
	CHECK(found->ai_dst_len == sizeof want && got->sin_port == want.sin_port && got->sin_addr.s_addr == want.sin_addr.s_addr);
	rdma_freeaddrinfo(found);
	FAILS(query(id, &found), ENOENT);

	// A name that is none, and the subnet's administrator, of which RoCE has none. Neither stands in the way of the next.
	CHECK(resolve(id, "no address", "7471", &hints) == -1);
	hints.ai_flags = SA_FLAG;
	FAILS(resolve(id, NULL, "service", &hints), EOPNOTSUPP);
	FAILS(resolve(id, NULL, NULL, &hints), EINVAL);
	FAILS(resolve(id, "127.0.0.2", "7471", &hints), ENOTSUP);
	hints.ai_flags |= DNS_FLAG;
	FAILS(resolve(id, NULL, "service", &hints), ENOTSUP);
	OK(resolve(id, "127.0.0.1", NULL, NULL)); // and is never asked for

	// Events of the program's own, in their order, behind that.
	FAILS(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 1), EINVAL);
	OK(write_event(id, USER, 7, 0x1122334455667788));
	OK(rdma_get_cm_event(ch, &e));
	CHECK((int)e->event == RESOLVED);
	OK(rdma_ack_cm_event(e));
	OK(rdma_get_cm_event(ch, &e));
	uint64_t arg;
	memcpy(&arg, &e->param, sizeof arg);
	CHECK((int)e->event == USER && e->status == 7 && e->id == id && id->context == &id && arg == 0x1122334455667788);
	OK(rdma_ack_cm_event(e));
	OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);

	// Without a channel the call waits for its event.
	OK(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP));
	OK(resolve(sync, "127.0.0.1", "1", NULL));
	OK(query(sync, &found));
	rdma_freeaddrinfo(found);
	OK(rdma_destroy_id(sync));
}

static void sets(void)
{
	int set = set_new(EPOLL_CLOEXEC), l = rsocket(AF_INET, SOCK_STREAM, 0), c = rsocket(AF_INET, SOCK_STREAM, 0), pipes[2];
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	CHECK(set >= 0 && l >= 0 && c >= 0);
	OK(pipe(pipes));
	OK(rbind(l, SA(at), sizeof at));
	OK(rgetsockname(l, SA(at), &len));
	OK(rlisten(l, 4));
	struct epoll_event in = {.events = EPOLLIN, .data.u64 = 1}, got[4];
	OK(set_ctl(set, EPOLL_CTL_ADD, l, &in));
	in.data.u64 = 2;
	OK(set_ctl(set, EPOLL_CTL_ADD, pipes[0], &in));
	FAILS(set_ctl(set, EPOLL_CTL_ADD, 9999, &in), EBADF);
	CHECK(set_wait(set, got, 4, 0) == 0);
	CHECK(write(pipes[1], "x", 1) == 1);
	CHECK(set_wait(set, got, 4, -1) == 1 && got[0].data.u64 == 2);
	OK(set_ctl(set, EPOLL_CTL_DEL, pipes[0], NULL));
	OK(rconnect(c, SA(at), sizeof at));
	CHECK(set_wait(set, got, 4, -1) == 1 && got[0].data.u64 == 1 && got[0].events == EPOLLIN);
	int s = raccept(l, NULL, NULL);
	CHECK(s >= 0);
	in.data.u64 = 3;
	OK(set_ctl(set, EPOLL_CTL_ADD, s, &in));
	CHECK(rsend(c, "hello", 5, 0) == 5);
	CHECK(set_wait(set, got, 4, -1) == 1 && got[0].data.u64 == 3);
	char text[8];
	CHECK(rrecv(s, text, sizeof text, 0) == 5);
	CHECK(set_wait(set, got, 4, 0) == 0);
	OK(rclose(s));
	OK(rclose(c));
	OK(rclose(l));
	OK(rclose(set));
	FAILS(rclose(set), EBADF);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
#define FIND(f, name) CHECK(*(void **)&f = dlvsym(RTLD_DEFAULT, name, strncmp(name, "re", 2) ? "RDMACM_1.4" : "RDMACM_1.5"))
	FIND(resolve, "rdma_resolve_addrinfo");
	FIND(query, "rdma_query_addrinfo");
	FIND(write_event, "rdma_write_cm_event");
	FIND(set_new, "repoll_create");
	FIND(set_ctl, "repoll_ctl");
	FIND(set_wait, "repoll_wait");
	lookups();
	sets();
	return 0;
}
