// Waiting for rsockets, and for other descriptors at the same time.
#include "rs.h"

#include <sys/epoll.h>
#include <time.h>

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

// waiting is what a thread waits for: sockets, or what can be received.
struct waiting {
	struct goroce_rs_item *items;
	size_t n;
	uint32_t doors;		 // of these
	const struct iovec *iov; // NULL: for the sockets
	int count, peek, result;
	size_t *received;
};

// ask calls the Go half, and returns 0 if the thread is to sleep. A handler of a signal that has run
// meanwhile interrupts who was about to sleep.
static int ask(struct waiting *w, goroce_handle thread, int how, bool *interrupted)
{
	goroce_busy++;
	uint32_t doors = rs_comes(w->doors);
	rs_enter(doors);
	int found;
	if (w->iov)
		found = (w->result = rs->recv_wait(w->items->socket, w->iov, w->count, w->peek, thread, how, w->received)) != EAGAIN;
	else
		found = rs->poll(w->items, w->n, thread, how);
	rs_leave(doors);
	*interrupted = goroce_late;
	return goroce_left(found);
}

static void leave(struct waiting *w, goroce_handle thread) { RS_QUEUED(w->doors, poll, w->items, w->n, thread, GOROCE_RS_LEAVE); }

void rs_slept(int set)
{
	struct epoll_event e;
	epoll_wait(set, &e, 1, 0);
}

// rs_sleep is poll of the thread's own set. Of the threads that sleep in epoll_wait a packet wakes one.
static int rs_sleep(struct pollfd *set, int timeout_ms)
{
	struct epoll_event e;
	unsigned int handled = goroce_handled;
	int r = epoll_wait(set->fd, &e, 1, timeout_ms);
	if (r < 0 && errno == EINTR && goroce_was_stopped(handled))
		r = 1;
	if (r < 0 && (errno == EBADF || errno == EINVAL)) {
		set->revents = POLLNVAL;
		return 1;
	}
	set->revents = POLLIN;
	return r;
}

// wait_for waits until there is something to find, or other descriptors have something. others, of
// count, have room for one more. It returns how many sockets have; 0 after the timeout, or for
// others; -1 with errno.
static int wait_for(struct waiting *w, struct pollfd *others, nfds_t count, int64_t start, int timeout_ms)
{
	goroce_handle thread = rs_thread(&others[count].fd);
	if (!thread)
		return -1;
	others[count].events = POLLIN;
	for (int how = GOROCE_RS_AWAIT;; how = GOROCE_RS_SLEPT) {
		bool interrupted;
		int found = ask(w, thread, how, &interrupted);
		if (found)
			return found;
		int r = -1, e = EINTR;
		if (!interrupted) {
			rs_nest(-1);
			r = count ? poll(others, count + 1, left_ms(start, timeout_ms)) : rs_sleep(others, left_ms(start, timeout_ms));
			e = errno;
			if (count && r > 0)
				rs_slept(others[count].fd);
		}
		if (r == 1 && others[count].revents == POLLIN)
			continue;
		if (r > 0 && others[count].revents & POLLNVAL) { // the program has closed it
			leave(w, thread);
			rs_thread_lost();
			if (!(thread = rs_thread(&others[count].fd)))
				return -1;
			continue;
		}
		leave(w, thread);
		errno = e;
		return r < 0 ? -1 : 0;
	}
}

int rs_await(struct rs *s, uint32_t events, int timeout_ms)
{
	struct goroce_rs_item item = {.socket = atomic_load(&s->handle), .events = events};
	struct waiting w = {.items = &item, .n = 1, .doors = rs_door(s)};
	struct pollfd set;
	int found = wait_for(&w, &set, 0, rs_now_us(), timeout_ms);
	if (found > 0 && item.revents & POLLNVAL)
		errno = EBADF;
	else if (found > 0)
		return 0;
	else if (!found)
		errno = ETIMEDOUT;
	return -1;
}

int rs_await_recv(struct rs *s, const struct iovec *iov, int count, int peek, size_t *n)
{
	struct goroce_rs_item item = {.socket = atomic_load(&s->handle)};
	struct waiting w = {.items = &item, .n = 1, .doors = rs_door(s), .iov = iov, .count = count, .peek = peek, .received = n};
	struct pollfd set;
	if (!rs_thread(&set.fd)) {
		int e = errno, r = RS(recv, item.socket, iov, count, peek, n);
		return r == EAGAIN ? e : r;
	}
	int found = wait_for(&w, &set, 0, s->rcv_ms ? rs_now_us() : 0, s->rcv_ms ? s->rcv_ms : -1);
	return found > 0 ? w.result : found ? errno : EAGAIN;
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
	short v = (short)(got & (POLLERR | POLLHUP | POLLNVAL));
	if (got & POLLIN)
		v |= p->events & (POLLIN | POLLRDNORM);
	if (got & POLLOUT)
		v |= p->events & (POLLOUT | POLLWRNORM);
	return v;
}

// poll_all is rpoll, with room for what there is to ask. others has those of fds that are no rsockets, and -1 in place of one.
static int poll_all(struct pollfd *fds, nfds_t n, struct goroce_rs_item *items, size_t sockets, uint32_t doors, struct pollfd *others, int timeout)
{
	int64_t start = rs_now_us();
	int ready = sockets < n ? poll(others, n, 0) : 0;
	if (ready < 0)
		return -1;
	struct waiting w = {.items = items, .n = sockets, .doors = doors};
	int found = 0, set;
	if (ready || !timeout) {
		bool ignored;
		found = ask(&w, rs_thread(&set), GOROCE_RS_LOOK, &ignored);
	} else {
		found = wait_for(&w, others, n, start, timeout);
		if (found < 0)
			return -1;
		if (sockets < n && (ready = poll(others, n, 0)) < 0)
			return -1;
	}
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = others[i].fd < 0 && fds[i].fd >= 0 ? revents_of(&fds[i], (items++)->revents) : others[i].revents;
	return ready + found;
}

#define FEW 16

EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	size_t sockets = 0;
	if (!fds && n)
		return cm_result(EFAULT);
	for (nfds_t i = 0; i < n; i++) {
		struct rs *s = rs_find(fds[i].fd);
		if (s && goroce_foreign(s->born))
			return cm_result(ENODEV);
		sockets += s != NULL;
	}
	if (!sockets)
		return poll(fds, n, timeout);
	struct room {
		struct goroce_rs_item item;
		struct pollfd other;
	} few[FEW + 1], *room = few;
	if (n > FEW && !(room = malloc((n + 1) * sizeof *room)))
		return cm_result(ENOMEM);
	struct goroce_rs_item *items = (struct goroce_rs_item *)room;
	struct pollfd *others = (struct pollfd *)(items + n);
	sockets = 0;
	uint32_t doors = 0;
	for (nfds_t i = 0; i < n; i++) {
		struct rs *s = rs_find(fds[i].fd);
		others[i] = (struct pollfd){.fd = s ? -1 : fds[i].fd, .events = fds[i].events};
		if (!s)
			continue;
		doors |= rs_door(s);
		items[sockets++] = (struct goroce_rs_item){.socket = atomic_load(&s->handle), .events = events_of(&fds[i])};
	}
	int r = poll_all(fds, n, items, sockets, doors, others, timeout), e = errno;
	if (room != few)
		free(room);
	errno = e;
	return r;
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
