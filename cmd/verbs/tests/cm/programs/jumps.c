/* A handler of a signal leaves a call by longjmp, as iperf3's does, and the program goes on with the socket. */
#include "check.h"
#include <infiniband/verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t alarms;
static void jump(int sig, siginfo_t *info, void *context)
{
	(void)context;
	CHECK(sig == SIGALRM && info->si_code == SI_KERNEL); /* of the timer */
	alarms++;
	siglongjmp(back, 1);
}

static int l;

static void *reads(void *arg)
{
	static char b[1 << 16];
	(void)arg;
	int fd = raccept(l, NULL, NULL);
	CHECK(fd >= 0);
	while (rread(fd, b, sizeof b) > 0)
		;
	OK(rclose(fd));
	return NULL;
}

static void resets(int sig) { alarms += sig == SIGUSR1; }

int main(void)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	static char b[1 << 16];
	pthread_t t;
	OK(ibv_fork_init()); /* a library that comes before libc: as the one that "roce run" preloads, it has sigaction */
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rlisten(l, 1));
	OK(rgetsockname(l, SA(at), &len));
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), v;
	sigset_t alarm; /* is this thread's */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	OK(pthread_sigmask(SIG_BLOCK, &alarm, NULL));
	OK(pthread_create(&t, NULL, reads, NULL));
	OK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL));
	OK(rconnect(fd, SA(at), sizeof at));

	struct sigaction a = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO}, was;
	OK(sigaction(SIGALRM, &a, NULL));
	OK(sigaction(SIGALRM, NULL, &was));
	CHECK(was.sa_sigaction == jump);
	for (volatile int i = 0; i < 300; i++) {
		struct itimerval soon = {.it_value.tv_usec = 50 + i * 7};
		if (sigsetjmp(back, 1))
			continue;
		OK(setitimer(ITIMER_REAL, &soon, NULL));
		for (;;) {
			CHECK(rwrite(fd, b, 1 + (size_t)i * 100) > 0);
			len = sizeof v;
			OK(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len));
		}
	}
	CHECK(alarms == 300);
	a = (struct sigaction){.sa_handler = resets, .sa_flags = (int)SA_RESETHAND};
	OK(sigaction(SIGUSR1, &a, NULL));
	alarms = 0;
	OK(raise(SIGUSR1));
	OK(sigaction(SIGUSR1, NULL, &was));
	CHECK(alarms == 1 && was.sa_handler == SIG_DFL);
	OK(rclose(fd));
	OK(pthread_join(t, NULL));
	OK(rclose(l));
	return 0;
}
