// Waiting for rsockets, and for other descriptors at the same time.
#include "rs.h"

#include <time.h>

#define POLL_US 10 // looked for without sleeping, as librdmacm does

int64_t rs_now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

// left_ms returns what is left of a timeout, rounded up; -1 is for ever.
static int left_ms(int64_t start, int timeout_ms)
{
	if (timeout_ms < 0)
		return -1;
	int64_t left = timeout_ms - (rs_now_us() - start) / 1000;
	return left > 0 ? (int)left : 0;
}

int rs_await(struct rs *s, uint32_t events, int timeout_ms)
{
	uint32_t got;
	int64_t start = rs_now_us();
	goroce_handle h = atomic_load(&s->handle);
	do {
		int e = RS(ready, h, events, -1, &got);
		if (e || got)
			return cm_result(e);
	} while (rs_now_us() - start < POLL_US);
	int fd = rs_waker();
	if (fd < 0)
		return -1;
	for (;;) {
		int e = RS(ready, h, events, fd, &got);
		if (e || got)
			return cm_result(e);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, left_ms(start, timeout_ms));
		e = n < 0 ? errno : n ? 0 : ETIMEDOUT;
		RS(forget, h, fd);
		rs_drain(fd);
		if (e)
			return cm_result(e);
	}
}

// events_of returns what poll's events are for a socket. Urgent data does not exist.
static uint32_t events_of(const struct pollfd *p)
{
	uint32_t v = 0;
	if (p->events & (POLLIN | POLLRDNORM))
		v |= POLLIN;
	if (p->events & (POLLOUT | POLLWRNORM))
		v |= POLLOUT;
	return v;
}

static short revents_of(const struct pollfd *p, uint32_t got)
{
	short v = (short)(got & (POLLERR | POLLHUP));
	if (got & POLLIN)
		v |= p->events & (POLLIN | POLLRDNORM);
	if (got & POLLOUT)
		v |= p->events & (POLLOUT | POLLWRNORM);
	return v;
}

// look asks one socket; with a waker it is to be rung.
static void look(struct pollfd *p, struct rs *s, int waker)
{
	uint32_t got = 0;
	int e = RS(ready, atomic_load(&s->handle), events_of(p), waker, &got);
	p->revents = e ? POLLNVAL : revents_of(p, got);
}

// look_all asks all, and returns how many have something.
static int look_all(struct pollfd *fds, nfds_t n, bool others, bool sockets)
{
	int ready = 0;
	// Other descriptors: all of them in one call.
	if (others) {
		struct pollfd *all = malloc(n * sizeof *all);
		if (!all) {
			errno = ENOMEM;
			return -1;
		}
		for (nfds_t i = 0; i < n; i++) {
			all[i] = fds[i];
			if (rs_find(fds[i].fd))
				all[i].fd = -1;
		}
		int r = poll(all, n, 0);
		for (nfds_t i = 0; i < n && r >= 0; i++)
			fds[i].revents = all[i].revents;
		int e = errno;
		free(all);
		errno = e;
		if (r < 0)
			return -1;
		ready = r;
	}
	for (nfds_t i = 0; sockets && i < n; i++) {
		struct rs *s = rs_find(fds[i].fd);
		if (!s)
			continue;
		look(&fds[i], s, -1);
		ready += fds[i].revents != 0;
	}
	return ready;
}

// arm has all sockets ring the waker; it returns whether one has something already.
static bool arm(struct pollfd *fds, nfds_t n, int waker)
{
	bool any = false;
	for (nfds_t i = 0; i < n && !any; i++) {
		struct rs *s = rs_find(fds[i].fd);
		if (!s)
			continue;
		look(&fds[i], s, waker);
		any = fds[i].revents != 0;
	}
	return any;
}

static void disarm(struct pollfd *fds, nfds_t n, int waker)
{
	for (nfds_t i = 0; i < n; i++) {
		struct rs *s = rs_find(fds[i].fd);
		if (s)
			RS(forget, atomic_load(&s->handle), waker);
	}
	rs_drain(waker);
}

// sleep_for waits for the waker and for the other descriptors; -1 with errno if it was interrupted.
static int sleep_for(const struct pollfd *fds, nfds_t n, int waker, int timeout_ms)
{
	struct pollfd *all = malloc((n + 1) * sizeof *all);
	if (!all) {
		errno = ENOMEM;
		return -1;
	}
	for (nfds_t i = 0; i < n; i++) {
		all[i] = fds[i];
		if (rs_find(fds[i].fd))
			all[i].fd = -1;
	}
	all[n] = (struct pollfd){.fd = waker, .events = POLLIN};
	int r = poll(all, n + 1, timeout_ms);
	int e = errno;
	free(all);
	errno = e;
	return r;
}

EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	bool sockets = false, others = false;
	if (!fds && n)
		return cm_result(EFAULT);
	for (nfds_t i = 0; i < n; i++) {
		struct rs *s = rs_find(fds[i].fd);
		if (!s)
			others = true;
		else if (goroce_foreign(s->born))
			return cm_result(ENODEV);
		else
			sockets = true;
	}
	if (!sockets)
		return poll(fds, n, timeout);
	int64_t start = rs_now_us();
	do {
		int r = look_all(fds, n, others, true);
		if (r || !timeout)
			return r;
	} while (rs_now_us() - start < POLL_US);
	int waker = rs_waker();
	if (waker < 0)
		return -1;
	for (;;) {
		bool any = arm(fds, n, waker);
		int r = any ? 1 : sleep_for(fds, n, waker, left_ms(start, timeout));
		int e = errno;
		disarm(fds, n, waker);
		if (r < 0)
			return cm_result(e);
		r = look_all(fds, n, others, true);
		if (r || left_ms(start, timeout) == 0)
			return r;
	}
}

// milliseconds rounds up: who waits for less than one does not mean not to wait.
static int milliseconds(const struct timeval *t)
{
	int64_t ms = t->tv_usec / 1000 + (t->tv_usec % 1000 != 0);
	if (t->tv_sec > INT32_MAX / 1000 - 1 || ms > INT32_MAX)
		return INT32_MAX;
	ms += t->tv_sec * 1000;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

EXPORT int rselect(int n, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	if (n < 0 || n > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return cm_result(EINVAL);
	struct pollfd *fds = calloc((size_t)n + 1, sizeof *fds);
	if (!fds)
		return cm_result(ENOMEM);
	nfds_t count = 0;
	for (int fd = 0; fd < n; fd++) {
		short events = 0;
		if (readfds && FD_ISSET(fd, readfds))
			events |= POLLIN;
		if (writefds && FD_ISSET(fd, writefds))
			events |= POLLOUT;
		if (exceptfds && FD_ISSET(fd, exceptfds))
			events |= POLLPRI;
		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	int ms = -1;
	if (timeout)
		ms = milliseconds(timeout);
	int r = rpoll(fds, count, ms);
	for (nfds_t i = 0; i < count && r >= 0; i++)
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			r = -1;
		}
	if (r >= 0) {
		r = 0;
		if (readfds)
			FD_ZERO(readfds);
		if (writefds)
			FD_ZERO(writefds);
		if (exceptfds)
			FD_ZERO(exceptfds);
		for (nfds_t i = 0; i < count; i++) {
			const struct pollfd *p = &fds[i];
			if (p->events & POLLIN && p->revents & (POLLIN | POLLHUP | POLLERR)) {
				FD_SET(p->fd, readfds);
				r++;
			}
			if (p->events & POLLOUT && p->revents & (POLLOUT | POLLERR)) {
				FD_SET(p->fd, writefds);
				r++;
			}
			if (p->events & POLLPRI && p->revents & POLLPRI) {
				FD_SET(p->fd, exceptfds);
				r++;
			}
		}
	}
	int e = errno;
	free(fds);
	errno = e;
	return r;
}
