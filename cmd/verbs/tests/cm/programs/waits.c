/* A thread that waits for a socket receives by itself: no other thread has to be woken for it. It may be interrupted, leave by longjmp, be
 * cancelled, lose the socket, and fork, and the next one that waits finds all in order. */
#include "echoes.h"
#include <infiniband/verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>
#include <sys/wait.h>

static int l;
static struct sockaddr_in at;

static void *accepts(void *arg)
{
	(void)arg;
	for (int fd; (fd = raccept(l, NULL, NULL)) >= 0;) {
		pthread_t t;
		OK(pthread_create(&t, NULL, echoes, (void *)(intptr_t)fd));
		OK(pthread_detach(t));
	}
	return NULL;
}

/* The other end is on another device, as in another process. */
static int dial(void)
{
	struct sockaddr_in from = addr("127.0.0.2", 0);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(fd, SA(from), sizeof from));
	OK(rconnect(fd, SA(at), sizeof at));
	return fd;
}

static bool by_poll;
static void exchange(int fd, int times)
{
	char b[8] = "hello";
	while (times--) {
		CHECK(rsend(fd, b, sizeof b, 0) == sizeof b);
		struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = l}};
		if (by_poll)
			CHECK(rpoll(p, 1 + (nfds_t)times % 2, -1) == 1 && p[0].revents == POLLIN);
		CHECK(rrecv(fd, b, sizeof b, MSG_WAITALL) == sizeof b);
	}
}

/* writes returns how often the process has called write(2), as for an eventfd; -1 if the kernel does not tell. */
static long writes(void)
{
	long n = -1;
	char line[128];
	FILE *f = fopen("/proc/self/io", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "syscw: %ld", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void receives_by_itself(int fd)
{
	for (int i = 0; i < 250; i++) {
		long before = writes();
		exchange(fd, 40);
		if (before < 0 || writes() - before < 20)
			return;
	}
	CHECK(!"messages that wake no other thread");
}

static void nothing(int sig) { (void)sig; }
static sigjmp_buf back;
static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void handle(void (*handler)(int))
{
	struct sigaction a = {.sa_handler = handler};
	OK(sigaction(SIGALRM, &a, NULL));
}

static void alarm_in(int us)
{
	struct itimerval t = {.it_value.tv_usec = us, .it_interval.tv_usec = us ? 20000 : 0}; /* one may come between two calls */
	OK(setitimer(ITIMER_REAL, &t, NULL));
}

static int waiting; /* threads that are in rrecv, or about to be */
static void *waits(void *socket)
{
	char b[1];
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	ssize_t n = rrecv((int)(intptr_t)socket, b, 1, 0);
	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

/* begin has a thread wait for a socket. */
static pthread_t begin(int fd)
{
	pthread_t t;
	int before = waiting;
	OK(pthread_create(&t, NULL, waits, (void *)(intptr_t)fd));
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

static volatile bool over;
static void *polls(void *cq)
{
	struct ibv_wc wc;
	while (!over)
		OK(ibv_poll_cq(cq, 1, &wc));
	return NULL;
}

/* beside_polling has another thread poll a queue of the same device. */
static void beside_polling(int fd)
{
	pthread_t t;
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && list[1]);
	struct ibv_context *c = ibv_open_device(list[1]);
	CHECK(c);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	CHECK(cq);
	OK(pthread_create(&t, NULL, polls, cq));
	exchange(fd, 300);
	over = true;
	end(t);
	OK(ibv_destroy_cq(cq));
	OK(ibv_close_device(c));
	ibv_free_device_list(list);
	exchange(fd, 300);
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
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rlisten(l, 8));
	OK(rgetsockname(l, SA(at), &len));
	OK(pthread_create(&server, NULL, accepts, NULL));
	int fd = dial();
	OK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL));

	receives_by_itself(fd);
	by_poll = true;
	receives_by_itself(fd);
	by_poll = false;

	char b[2];
	handle(nothing);
	for (int i = 0; i < 20; i++) {
		exchange(fd, 50);
		alarm_in(100 + 50 * i);
		CHECK(rrecv(fd, b, 1, 0) == -1 && errno == EINTR);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		CHECK(rpoll(&p, 1, -1) == -1 && errno == EINTR);
		alarm_in(0);
	}
	handle(jump);
	for (volatile int i = 0; i < 20; i++) {
		exchange(fd, 50);
		if (!sigsetjmp(back, 1)) {
			alarm_in(100 + 50 * i);
			rrecv(fd, b, 1, 0);
			CHECK(!"an alarm");
		}
		alarm_in(0);
	}
	OK(pthread_sigmask(SIG_BLOCK, &alarm, NULL));

	for (int i = 0; i < 5; i++) {
		exchange(fd, 50);
		pthread_t t = begin(fd), u;
		OK(pthread_cancel(t));
		CHECK(end(t) == (long)PTHREAD_CANCELED);
		exchange(fd, 50);

		t = begin(fd);
		u = begin(fd);
		CHECK(rsend(fd, "ab", 2, 0) == 2);
		CHECK(end(t) == 1 && end(u) == 1);

		int other = dial();
		exchange(other, 50);
		t = begin(other);
		OK(rclose(other));
		CHECK(end(t) == -EBADF);
	}

	/* A child has all descriptors, also of threads that sleep. */
	int life[2];
	OK(pipe(life));
	pid_t child = fork();
	if (!child) {
		close(life[1]);
		_exit((int)read(life[0], b, 1));
	}
	exchange(fd, 300);
	close(life[1]);
	int status;
	CHECK(waitpid(child, &status, 0) == child && !status);
	exchange(fd, 300);

	beside_polling(fd);
	OK(rclose(fd));
	return 0;
}
