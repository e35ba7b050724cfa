/* A thread that waits with epoll for TCP sockets, which are rsockets, receives by itself. It and others miss nothing, however they wait. */
#include "../programs/check.h"
#include <dirent.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static int l;
static struct sockaddr_in at;

static void *echoes(void *socket)
{
	int fd = (int)(intptr_t)socket;
	char b[64];
	for (ssize_t n; (n = recv(fd, b, sizeof b, 0)) > 0;)
		if (send(fd, b, (size_t)n, MSG_NOSIGNAL) != n) {
			CHECK(errno == EPIPE || errno == ECONNRESET); /* together closes before it has all answers */
			break;
		}
	close(fd);
	return NULL;
}

static void *accepts(void *arg)
{
	for (int fd; (fd = accept(l, NULL, NULL)) >= 0;) {
		pthread_t t;
		OK(pthread_create(&t, NULL, echoes, (void *)(intptr_t)fd));
		OK(pthread_detach(t));
	}
	return arg;
}

static void add(int ep, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	OK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

static void change(int ep, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	OK(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
}

/* dial connects a socket to an echo, on another device, and puts it into a set. */
static int dial(int ep, uint32_t events)
{
	struct sockaddr_in from = addr("127.0.0.2", 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	OK(bind(fd, SA(from), sizeof from));
	OK(connect(fd, SA(at), sizeof at));
	FAILS(dup(fd), ENOTSUP); /* it is an rsocket */
	OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	if (ep >= 0)
		add(ep, fd, events);
	return fd;
}

/* wait_for waits for one event, which is of a descriptor. */
static void wait_for(int ep, int fd)
{
	struct epoll_event e[4];
	int n;
	while ((n = epoll_wait(ep, e, 4, -1)) < 0 && errno == EINTR)
		;
	CHECK(n == 1 && e[0].data.fd == fd && e[0].events == EPOLLIN);
}

static void hear(int fd)
{
	char b[16];
	CHECK(read(fd, b, sizeof b) == 5);
	FAILS(read(fd, b, sizeof b), EAGAIN);
}

static void say(int fd) { CHECK(write(fd, "hello", 5) == 5); }

static void exchange(int ep, int fd, int times)
{
	while (times--) {
		say(fd);
		wait_for(ep, fd);
		hear(fd);
	}
}

/* seated reports whether the thread that waits for a set receives: in the set in which it sleeps are that one and what a shard receives by. */
static bool seated(int ep)
{
	bool found = false;
	DIR *d = opendir("/proc/self/fdinfo");
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		char path[300], line[256];
		snprintf(path, sizeof path, "/proc/self/fdinfo/%s", e->d_name);
		FILE *f = fopen(path, "r");
		bool sleeps = false, receives = false;
		int fd;
		unsigned int events;
		while (f && fgets(line, sizeof line, f))
			if (sscanf(line, "tfd: %d events: %x", &fd, &events) == 2) {
				sleeps |= fd == ep;
				receives |= (events & EPOLLEXCLUSIVE) != 0;
			}
		if (f)
			fclose(f);
		found = sleeps && receives;
	}
	if (d)
		closedir(d);
	return found;
}

/* receives_by_itself wants the thread in the seat 20 times, of at most 1,000. A call that has the goroutine receive takes it out at each exchange. */
static void receives_by_itself(int ep, int fd, void exchanges(int ep, int fd, int times))
{
	int seats = 0;
	for (int i = 0; i < 1000 && seats < 20; i++) {
		exchanges(ep, fd, 40);
		seats += seated(ep);
	}
	CHECK(seats == 20);
}

/* A read that blocks, of a socket that epoll has named, finds what there is. */
static void exchange_blocking(int ep, int fd, int times)
{
	char b[16];
	while (times--) {
		say(fd);
		wait_for(ep, fd);
		CHECK(read(fd, b, sizeof b) == 5);
	}
}

/* Other descriptors in the set, which another thread makes readable at any time. */
static int pipes[2];
static void *writes(void *times)
{
	for (intptr_t n = (intptr_t)times; n--;) {
		usleep(200);
		CHECK(write(pipes[1], "p", 1) == 1);
	}
	return NULL;
}

static void mixed(int ep, int fd)
{
	enum { TIMES = 200 };
	pthread_t t;
	int got = 0, heard = 0;
	OK(pipe(pipes));
	add(ep, pipes[0], EPOLLIN);
	OK(pthread_create(&t, NULL, writes, (void *)(intptr_t)TIMES));
	for (say(fd); got < TIMES || heard < TIMES;) {
		struct epoll_event e[4];
		int n = epoll_wait(ep, e, 4, -1);
		CHECK(n > 0);
		for (int i = 0; i < n; i++) {
			char c;
			CHECK(e[i].events == EPOLLIN);
			if (e[i].data.fd == fd) {
				hear(fd);
				if (++heard < TIMES) /* then only the pipe is left */
					say(fd);
			} else {
				CHECK(e[i].data.fd == pipes[0] && read(pipes[0], &c, 1) == 1);
				got++;
			}
		}
	}
	OK(pthread_join(t, NULL));
	OK(close(pipes[0]));
	OK(close(pipes[1]));
}

/* Edges and single shots, in the seat. */
static void modes(int ep, int fd)
{
	struct epoll_event e;
	char b[16];
	change(ep, fd, EPOLLIN | EPOLLET);
	exchange(ep, fd, 100);
	for (int i = 0; i < 20; i++) { /* what is left makes no edge */
		say(fd);
		wait_for(ep, fd);
		CHECK(read(fd, b, 2) == 2);
		CHECK(epoll_wait(ep, &e, 1, i % 2) == 0);
		CHECK(read(fd, b, sizeof b) == 3);
	}
	change(ep, fd, EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 50; i++) {
		say(fd);
		wait_for(ep, fd);
		CHECK(epoll_wait(ep, &e, 1, 0) == 0); /* it has had it */
		hear(fd);
		change(ep, fd, EPOLLIN | EPOLLONESHOT);
	}
	change(ep, fd, EPOLLIN);
}

/* A set in a set, and poll: the thread has the seat, and waits by other means. */
static void outside(int ep, int fd)
{
	int outer = epoll_create1(0);
	add(outer, ep, EPOLLIN);
	for (int i = 0; i < 50; i++) {
		exchange(ep, fd, 40);
		say(fd);
		wait_for(outer, ep);
		wait_for(ep, fd);
		hear(fd);
		say(fd);
		struct pollfd p = {.fd = ep, .events = POLLIN};
		CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
		wait_for(ep, fd);
		hear(fd);
	}
	OK(close(outer));
}

/* Threads that share a set, or have one each. */
enum { THREADS = 4, SOCKETS = 8, TIMES = 300 };
static int left;
static void *works(void *set)
{
	int ep = (int)(intptr_t)set;
	while (__atomic_load_n(&left, __ATOMIC_SEQ_CST) > 0) {
		struct epoll_event e;
		int n = epoll_wait(ep, &e, 1, -1), fd = e.data.fd;
		CHECK(n == 1);
		if (fd == pipes[0])
			break;
		hear(fd);
		if (__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) > 0)
			say(fd);
		else
			CHECK(write(pipes[1], "", 1) == 1); /* for all, since nobody takes it */
		change(ep, fd, EPOLLIN | EPOLLONESHOT);
	}
	return NULL;
}

static void together(bool share)
{
	pthread_t t[THREADS];
	int ep[THREADS], fds[SOCKETS];
	OK(pipe(pipes));
	left = SOCKETS * TIMES;
	for (int i = 0; i < THREADS; i++) {
		ep[i] = share && i ? ep[0] : epoll_create1(0);
		if (!share || !i)
			add(ep[i], pipes[0], EPOLLIN);
	}
	for (int i = 0; i < SOCKETS; i++)
		fds[i] = dial(ep[i % THREADS], EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < THREADS; i++)
		OK(pthread_create(&t[i], NULL, works, (void *)(intptr_t)ep[i]));
	for (int i = 0; i < SOCKETS; i++)
		say(fds[i]);
	for (int i = 0; i < THREADS; i++)
		OK(pthread_join(t[i], NULL));
	for (int i = 0; i < SOCKETS; i++)
		OK(close(fds[i]));
	for (int i = 0; i < THREADS; i++)
		if (!share || !i)
			OK(close(ep[i]));
	OK(close(pipes[0]));
	OK(close(pipes[1]));
}

static int alarms;
static void counts(int sig)
{
	(void)sig;
	alarms++;
}

static void alarm_in(int us)
{
	struct itimerval t = {.it_value.tv_usec = us, .it_interval.tv_usec = us ? 20000 : 0}; /* one may come between two calls */
	OK(setitimer(ITIMER_REAL, &t, NULL));
}

static void interrupted(int ep, int fd)
{
	struct sigaction a = {.sa_handler = counts, .sa_flags = SA_RESTART};
	struct epoll_event e;
	sigset_t alarm, none;
	sigemptyset(&none);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	OK(sigaction(SIGALRM, &a, NULL));
	for (int i = 0; i < 20; i++) {
		exchange(ep, fd, 30);
		OK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL));
		alarm_in(100 + 50 * i);
		FAILS(epoll_wait(ep, &e, 1, -1), EINTR);
		OK(pthread_sigmask(SIG_BLOCK, &alarm, NULL));
		/* It comes in the call, and nowhere else. */
		int before = alarms;
		alarm_in(100 + 50 * i);
		exchange(ep, fd, 30);
		CHECK(alarms == before);
		FAILS(epoll_pwait(ep, &e, 1, -1, &none), EINTR);
		CHECK(alarms > before);
		alarm_in(0);
	}
	OK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL));
	alarm_in(100);
	int before = alarms;
	CHECK(epoll_pwait(ep, &e, 1, 60, &alarm) == 0); /* it waits for the end of the call */
	alarm_in(0);
	CHECK(alarms > before);
	OK(pthread_sigmask(SIG_BLOCK, &alarm, NULL));
}

static int waiting;
static void *waits(void *set)
{
	struct epoll_event e;
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	return (void *)(intptr_t)epoll_wait((int)(intptr_t)set, &e, 1, -1);
}

static pthread_t begin(int ep)
{
	pthread_t t;
	int before = waiting;
	OK(pthread_create(&t, NULL, waits, (void *)(intptr_t)ep));
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) == before)
		sched_yield();
	return t;
}

static long end(pthread_t t)
{
	void *result;
	OK(pthread_join(t, &result));
	return (long)result;
}

/* Threads that end while they wait, with and without others that wait for the same. */
static void cancelled(int ep, int fd)
{
	for (int i = 0; i < 20; i++) {
		pthread_t t = begin(ep), u = begin(ep);
		if (i % 2)
			usleep(500);
		OK(pthread_cancel(t));
		CHECK(end(t) == (long)PTHREAD_CANCELED);
		say(fd);
		CHECK(end(u) == 1);
		hear(fd);
		exchange(ep, fd, 50);
	}
}

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void times_out(int ep)
{
	struct epoll_event e;
	struct timespec t = {0, 3000000}, wrong = {0, -1};
	int64_t start = now_us();
	CHECK(epoll_wait(ep, &e, 1, 0) == 0);
	CHECK(epoll_wait(ep, &e, 1, 5) == 0 && now_us() - start >= 5000);
	start = now_us();
	CHECK(epoll_pwait2(ep, &e, 1, &t, NULL) == 0 && now_us() - start >= 3000);
	FAILS(epoll_pwait2(ep, &e, 1, &wrong, NULL), EINVAL);
	FAILS(epoll_wait(ep, &e, 0, -1), EINVAL);
}

/* A child has the set, and what is in it that is no rsocket. */
static void forked(int ep, int fd)
{
	int life[2];
	OK(pipe(life));
	pid_t child = fork();
	if (!child) {
		struct epoll_event e;
		int mine = epoll_create1(0);
		close(life[1]);
		add(mine, life[0], EPOLLIN);
		CHECK(epoll_wait(ep, &e, 1, 0) == 0);
		CHECK(epoll_wait(mine, &e, 1, -1) == 1 && e.events == EPOLLHUP);
		_exit(0);
	}
	exchange(ep, fd, 300);
	close(life[1]);
	int status;
	CHECK(waitpid(child, &status, 0) == child && !status);
	close(life[0]);
	exchange(ep, fd, 300);
}

int main(void)
{
	at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	pthread_t server;
	sigset_t alarm; /* is this thread's */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	OK(pthread_sigmask(SIG_BLOCK, &alarm, NULL));
	l = socket(AF_INET, SOCK_STREAM, 0);
	OK(bind(l, SA(at), sizeof at));
	OK(listen(l, 8));
	OK(getsockname(l, SA(at), &len));
	OK(pthread_create(&server, NULL, accepts, NULL));

	int ep = epoll_create1(0), fd = dial(ep, EPOLLIN);
	OK(fcntl(fd, F_SETFL, 0));
	receives_by_itself(ep, fd, exchange_blocking);
	OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	receives_by_itself(ep, fd, exchange);
	mixed(ep, fd);
	modes(ep, fd);
	outside(ep, fd);
	interrupted(ep, fd);
	cancelled(ep, fd);
	times_out(ep);
	together(true);
	together(false);
	forked(ep, fd);
	OK(close(fd));

	/* The number of the set becomes another one's. */
	OK(close(ep));
	struct epoll_event e;
	FAILS(epoll_wait(ep, &e, 1, 0), EBADF);
	CHECK(epoll_create1(0) == ep);
	OK(pipe(pipes));
	add(ep, pipes[0], EPOLLIN);
	CHECK(epoll_wait(ep, &e, 1, 1) == 0);
	CHECK(write(pipes[1], "", 1) == 1);
	wait_for(ep, pipes[0]);
	return 0;
}
