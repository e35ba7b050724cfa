// Sets of epoll that rsockets can be in, beside any other descriptors. The kernel knows what there is (rs_mirror.c). A thread that waits for such a
// set receives meanwhile, by the Go half (core/rs_set.go). A set in another set, or one that the program asks by number, needs none of this.
#include "rs.h"
#include "../include/goroce_rs_private.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int repoll_create(int flags);
int repoll_ctl(int set, int op, int fd, struct epoll_event *e);
int repoll_wait(int set, struct epoll_event *events, int most, int timeout);

EXPORT int repoll_create(int flags) { return (int)syscall(SYS_epoll_create1, flags); }

EXPORT int repoll_ctl(int set, int op, int fd, struct epoll_event *e)
{
	if (op == EPOLL_CTL_ADD && goroce_rs_is(fd) && goroce_rs_mirror(fd, set))
		return -1;
	return (int)syscall(SYS_epoll_ctl, set, op, fd, e);
}

EXPORT int repoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
	struct timespec t = {timeout / 1000, timeout % 1000 * 1000000L};
	int n = goroce_rs_has(set) ? goroce_rs_epoll(set, events, most, timeout < 0 ? NULL : &t, NULL) : cm_result(EBUSY);
	return n < 0 && errno == EBUSY ? epoll_wait(set, events, most, timeout) : n;
}

// Of the sets that had a member: the generation, + 1. A number may be another set's by now, which costs little.
#define NUMBERS 65536
static atomic_uint had[NUMBERS];

void rs_has_members(int set)
{
	if (set >= 0 && set < NUMBERS)
		atomic_store(&had[set], goroce_generation() + 1);
}

void rs_has_none(int set)
{
	if (set >= 0 && set < NUMBERS)
		atomic_store(&had[set], 0);
}

EXPORT int goroce_rs_has(int set) { return set >= 0 && set < NUMBERS && atomic_load(&had[set]) == goroce_generation() + 1; }

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

struct waiting {
	int set;
	goroce_handle thread;
	const sigset_t *mask; // while the thread sleeps; NULL: as it is
	sigset_t was;
};

// What the mask blocks is blocked from the first look on, as if it was the kernel that looked.
static void mask(struct waiting *w)
{
	if (w->mask)
		pthread_sigmask(SIG_BLOCK, w->mask, &w->was);
}

static void unmask(struct waiting *w)
{
	if (w->mask)
		pthread_sigmask(SIG_SETMASK, &w->was, NULL);
}

static void leave(void *p)
{
	struct waiting *w = p;
	RS_QUEUED(rs_all_doors(), epoll, w->set, NULL, 0, w->thread, GOROCE_RS_LEAVE);
}

static void cancelled(void *p)
{
	leave(p);
	unmask(p);
}

// sleep_nested sleeps until the thread's set, with the program's in it, has something: 1 if it is the
// thread's own, 0 if it is the program's, -1 after the timeout or with errno. So a packet wakes one
// of the threads that wait.
static int sleep_nested(int own, int ms, const sigset_t *mask)
{
	struct epoll_event e = {0};
	unsigned int handled = goroce_handled;
	int r = epoll_pwait(own, &e, 1, ms, mask);
	if (r < 0 && errno == EINTR && goroce_was_stopped(handled))
		return 1;
	return r <= 0 ? -1 : !e.data.u64;
}

// until_readable is sleep_nested without nesting, for sets that cannot be nested and timeouts that
// are no milliseconds.
static int until_readable(struct pollfd fds[2], const struct timespec *left, const sigset_t *mask)
{
	int r = ppoll(fds, 2, left, mask);
	if (r <= 0)
		return -1;
	if (!fds[1].revents)
		return 0;
	rs_slept(fds[1].fd);
	return 1;
}

static int64_t left_ns(int64_t end)
{
	int64_t ns = end == INT64_MAX ? 0 : end - now_ns();
	return ns > 0 ? ns : 0;
}

static int asleep(struct pollfd fds[2], int64_t end, bool whole, const sigset_t *mask)
{
	int64_t ns = left_ns(end);
	struct timespec left = {ns / 1000000000, ns % 1000000000};
	bool nests = whole && ns / 1000000 < INT32_MAX && rs_nest(fds[0].fd);
	errno = 0;
	fds[1].revents = 0;
	if (nests)
		return sleep_nested(fds[1].fd, end == INT64_MAX ? -1 : (int)((ns + 999999) / 1000000), mask);
	return until_readable(fds, end == INT64_MAX ? NULL : &left, mask);
}

// until_something sleeps until one of the sets has something. The thread may be cancelled meanwhile.
static int until_something(struct pollfd fds[2], struct waiting *w, int64_t end, bool whole)
{
	int r;
	pthread_cleanup_push(cancelled, w);
	r = asleep(fds, end, whole, w->mask);
	pthread_cleanup_pop(0);
	return r;
}

static int wait_for(struct waiting *w, struct epoll_event *events, int most, const struct timespec *timeout)
{
	int set = w->set;
	struct pollfd fds[2] = {{.fd = set, .events = POLLIN}, {.events = POLLIN}};
	w->thread = rs_thread(&fds[1].fd);
	int64_t end = INT64_MAX;
	if (timeout && timeout->tv_sec < INT32_MAX)
		end = now_ns() + timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec;
	int how = timeout && !timeout->tv_sec && !timeout->tv_nsec ? GOROCE_RS_LOOK : GOROCE_RS_AWAIT;
	int n = -EBUSY;
	while (w->thread) {
		goroce_busy++;
		uint32_t doors = rs_comes(rs_all_doors());
		rs_enter(doors);
		n = rs->epoll(set, events, most, w->thread, how);
		rs_leave(doors);
		bool interrupted = goroce_late;
		goroce_left(0);
		if (n || how == GOROCE_RS_LOOK)
			break;
		int own = -1;
		errno = EINTR;
		if (!interrupted)
			own = until_something(fds, w, end, !timeout || !(timeout->tv_nsec % 1000000));
		if (own < 0 && (errno == EBADF || errno == EINVAL)) { // the program has closed it
			leave(w);
			rs_thread_lost();
			w->thread = rs_thread(&fds[1].fd);
			how = GOROCE_RS_AWAIT;
			n = -EBUSY;
			continue;
		}
		if (own < 0) {
			int e = errno;
			leave(w);
			errno = e;
			return e ? -1 : 0;
		}
		how = own ? GOROCE_RS_SLEPT : GOROCE_RS_AWAIT;
		if (own && fds[1].revents & POLLNVAL) { // the program has closed it
			leave(w);
			rs_thread_lost();
			w->thread = rs_thread(&fds[1].fd);
			how = GOROCE_RS_AWAIT;
			n = -EBUSY;
		}
	}
	return n < 0 ? cm_result(-n) : n;
}

EXPORT int goroce_rs_epoll(int set, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *during)
{
	struct waiting w = {.set = set, .mask = during};
	mask(&w);
	int n = wait_for(&w, events, most, timeout), e = errno;
	unmask(&w);
	errno = e;
	return n;
}

bool rs_is_set(int fd)
{
	char path[32], what[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, what, sizeof what - 1);
	what[n > 0 ? n : 0] = 0;
	return !strcmp(what, "anon_inode:[eventpoll]");
}
