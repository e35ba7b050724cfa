// The descriptors of rsockets.
#include "rs.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

// A table of two levels, so that looking a socket up takes no lock.
#define CHUNK 1024
#define CHUNKS 1024
static _Atomic(struct rs *) chunks[CHUNKS];

struct rs *rs_find(int fd)
{
	if (fd < 0 || fd >= CHUNK * CHUNKS)
		return NULL;
	struct rs *c = atomic_load(&chunks[fd / CHUNK]);
	if (!c)
		return NULL;
	struct rs *s = &c[fd % CHUNK];
	return atomic_load(&s->handle) ? s : NULL;
}

// remake makes a socket of the parent again: 0, or an errno.
static int remake(struct rs *s)
{
	goroce_handle h;
	if (s->used)
		return ENODEV;
	int e = RS(create, s->domain, s->type, &h);
	if (e)
		return e;
	const struct { int option; int64_t value; } set[] = {
		{GOROCE_RS_SNDBUF, s->sndbuf}, {GOROCE_RS_RCVBUF, s->rcvbuf}, {GOROCE_RS_SQSIZE, s->sq_size}, {GOROCE_RS_RQSIZE, s->rq_size},
		{GOROCE_RS_IOMAPS, s->iomaps}, {GOROCE_RS_TOS, s->tos}, {GOROCE_RS_REUSE, s->reuse}, {GOROCE_RS_V6ONLY, s->v6only},
		{GOROCE_RS_KEEPALIVE, s->keepalive ? s->keepidle : 0}, {GOROCE_RS_PLAIN, s->plain},
	};
	for (size_t i = 0; i < sizeof set / sizeof *set; i++)
		if (set[i].value)
			RS(set_option, h, set[i].option, set[i].value); // it was accepted before
	if (s->bound)
		e = RS(bind, h, (struct sockaddr *)s->bound);
	if (!e && s->backlog >= 0)
		e = RS(listen, h, s->backlog, goroce_parent());
	if (e) {
		RS(close, h);
		return e;
	}
	s->mirror = (struct rs_mirror){0, 0};
	atomic_store(&s->door, 0);
	atomic_store(&s->handle, h);
	return 0;
}

// again makes a socket of the parent again, if it has had no peer.
static void again(struct rs *s)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	if (cm_devices_open())
		return;
	pthread_mutex_lock(&mutex);
	if (cm_of_parent(s->born) && !goroce_foreign(goroce_generation()) && !remake(s))
		__atomic_store_n(&s->born, goroce_generation(), __ATOMIC_RELEASE);
	pthread_mutex_unlock(&mutex);
}

void rs_note_bound(struct rs *s)
{
	struct sockaddr_storage a;
	if (RS(name, atomic_load(&s->handle), 0, &a) || !a.ss_family)
		return;
	if (!s->bound)
		s->bound = malloc(sizeof *s->bound);
	if (s->bound)
		*s->bound = a;
}

struct rs *rs_of(int fd)
{
	struct rs *s = rs_find(fd);
	if (!s) {
		errno = EBADF;
		return NULL;
	}
	if (cm_of_parent(s->born))
		again(s);
	if (goroce_foreign(s->born)) {
		errno = ENODEV;
		return NULL;
	}
	return s;
}

// place returns where the socket of a number is, or is to be.
static struct rs *place(int fd)
{
	if (fd >= CHUNK * CHUNKS) {
		errno = EMFILE;
		return NULL;
	}
	struct rs *c = atomic_load(&chunks[fd / CHUNK]);
	if (!c) {
		struct rs *n = calloc(CHUNK, sizeof *n);
		if (!n) {
			errno = ENOMEM;
			return NULL;
		}
		if (atomic_compare_exchange_strong(&chunks[fd / CHUNK], &c, n))
			c = n;
		else
			free(n);
	}
	return &c[fd % CHUNK];
}

int rs_new(goroce_handle handle, int domain, int type, struct rs **made)
{
	int fd = eventfd(0, type & SOCK_CLOEXEC ? EFD_CLOEXEC : 0);
	if (fd < 0)
		return -1;
	struct rs *s = place(fd);
	if (!s) {
		int e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	// All but the handle, which makes it a socket.
	s->born = goroce_generation();
	s->fd_flags = type & SOCK_CLOEXEC ? FD_CLOEXEC : 0;
	s->domain = domain;
	s->type = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	s->sndbuf = s->rcvbuf = 1 << 17;
	s->sq_size = s->rq_size = 384;
	s->inline_bytes = 64;
	s->keepidle = 2 * 60 * 60;
	s->iomaps = s->tos = s->error = s->rcv_ms = s->snd_ms = 0;
	s->reuse = s->keepalive = s->oobinline = s->nodelay = s->v6only = s->linger_off = s->plain = 0;
	memset(s->advice, 0, sizeof s->advice);
	s->mirror = (struct rs_mirror){0, 0};
	atomic_store(&s->door, 0);
	s->used = false;
	s->backlog = -1;
	free(s->bound);
	s->bound = NULL;
	atomic_store(&s->flags, type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	atomic_store(&s->handle, handle);
	*made = s;
	return fd;
}

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static __thread struct goroce_rs_thread *self;
static __thread goroce_handle self_handle;
static __thread unsigned int self_born; // see cm_foreign

// leave_thread has the Go half use the descriptors no more. It does not call it: at the end of a thread what that has for calls may be gone. The Go
// half of the parent is not in a child, and nobody there is done with it.
static void leave_thread(struct goroce_rs_thread *t, bool ours)
{
	bool shared = self_born == goroce_generation();
	__atomic_store_n(&t->gone, 1, __ATOMIC_SEQ_CST);
	while (shared && __atomic_load_n(&t->users, __ATOMIC_SEQ_CST))
		sched_yield();
	if (ours) {
		close(t->set);
		close(t->event);
	}
	__atomic_store_n(&t->gone, 2, __ATOMIC_RELEASE);
	self = NULL;
}

uint32_t rs_comes(uint32_t doors) { return self ? self->came |= doors : doors; }

static void end_thread(void *t) { leave_thread(t, true); }

static void make_key(void) { pthread_key_create(&key, end_thread); }

static __thread int nested = -1; // the program's set in ours

bool rs_nest(int set)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 1};
	if (nested >= 0 && nested != set)
		syscall(SYS_epoll_ctl, self->set, EPOLL_CTL_DEL, nested, &e);
	nested = set;
	return set < 0 || !syscall(SYS_epoll_ctl, self->set, EPOLL_CTL_ADD, set, &e) || errno == EEXIST; // it may be a new one of the same number
}

static int open_thread(struct goroce_rs_thread *t)
{
	t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	nested = -1;
	rs_has_none(t->set);
	if (t->event >= 0 && t->set >= 0 && !syscall(SYS_epoll_ctl, t->set, EPOLL_CTL_ADD, t->event, &e) &&
	    !(errno = RS(thread, t, gettid(), &self_handle)))
		return 0;
	int failed = errno;
	if (t->event >= 0)
		close(t->event);
	if (t->set >= 0)
		close(t->set);
	return failed;
}

void rs_thread_lost(void)
{
	pthread_setspecific(key, NULL);
	leave_thread(self, false);
}

goroce_handle rs_thread(int *set)
{
	if (!self || self_born != goroce_generation()) {
		if (self)
			leave_thread(self, true);
		struct goroce_rs_thread *t = calloc(1, sizeof *t);
		if (t)
			t->doors = rs_doors();
		int e = t ? open_thread(t) : ENOMEM;
		if (e) {
			free(t);
			errno = e;
			return 0;
		}
		self = t;
		self_born = goroce_generation();
		pthread_once(&key_once, make_key);
		pthread_setspecific(key, t);
	}
	*set = self->set;
	return self_handle;
}
