/*
 * epoll for rsockets. librdmacm makes the descriptor of one that is put into a set one that the kernel can wait for, so that waiting itself is
 * the kernel's. What is here is a list of the sets that each rsocket is in: it is taken along when the socket becomes one of the
 * kernel, which is another file under the same number.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "epoll.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../include/goroce_rs_private.h"

/* member says that a socket is in a set. */
struct member {
	int set;
	struct epoll_event event;
	struct member *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct member **by_fd;
static int length;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(lock, unlock, unlock); }

static int control(int set, int op, int fd, struct epoll_event *e) { return (int)syscall(SYS_epoll_ctl, set, op, fd, e); }

/* place returns where the members of a number are listed; NULL if there is no memory. The mutex is held. */
static struct member **place(int fd)
{
	if (fd >= length) {
		int n = 2 * fd + 64;
		struct member **more = realloc(by_fd, (size_t)n * sizeof *more);
		if (!more)
			return NULL;
		for (int i = length; i < n; i++)
			more[i] = NULL;
		by_fd = more;
		length = n;
	}
	return &by_fd[fd];
}

static void note(struct member **list, int set, const struct epoll_event *e)
{
	struct member *m;
	for (m = *list; m; m = m->next)
		if (m->set == set)
			break;
	if (!m) {
		m = malloc(sizeof *m);
		if (!m)
			return; /* it is not taken along */
		m->set = set;
		m->next = *list;
		*list = m;
	}
	m->event = *e;
}

static void drop(struct member **list, int set)
{
	for (struct member **p = list; *p; p = &(*p)->next)
		if ((*p)->set == set) {
			struct member *gone = *p;
			*p = gone->next;
			free(gone);
			return;
		}
}

int rspreload_epoll_ctl(int set, int op, int fd, struct epoll_event *e)
{
	if (op == EPOLL_CTL_ADD && goroce_rs_mirror(fd, set))
		return -1;
	int r = control(set, op, fd, e);
	if (r)
		return r;
	pthread_mutex_lock(&mutex);
	struct member **list = place(fd);
	if (list && op == EPOLL_CTL_DEL)
		drop(list, set);
	else if (list && e)
		note(list, set, e);
	pthread_mutex_unlock(&mutex);
	return 0;
}

static struct member *take(int fd)
{
	struct member *all = NULL;
	pthread_mutex_lock(&mutex);
	if (fd >= 0 && fd < length) {
		all = by_fd[fd];
		by_fd[fd] = NULL;
	}
	pthread_mutex_unlock(&mutex);
	return all;
}

void rspreload_epoll_forget(int fd)
{
	struct member *next;
	for (struct member *m = take(fd); m; m = next) {
		next = m->next;
		free(m);
	}
}

struct member *rspreload_epoll_leave(int fd)
{
	/* It leaves the sets that it is still in; others may be gone. */
	struct member *left = NULL, *next;
	for (struct member *m = take(fd); m; m = next) {
		next = m->next;
		if (control(m->set, EPOLL_CTL_DEL, fd, NULL)) {
			free(m);
			continue;
		}
		m->next = left;
		left = m;
	}
	return left;
}

void rspreload_epoll_join(int fd, struct member *all, bool again)
{
	int e = errno;
	struct member *next;
	for (struct member *m = all; m; m = next) {
		next = m->next;
		if (again)
			control(m->set, EPOLL_CTL_ADD, fd, &m->event);
		free(m);
	}
	errno = e;
}
