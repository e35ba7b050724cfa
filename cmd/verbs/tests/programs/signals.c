// The signals of the program: each keeps its default or its handler, and no handler runs on a stack or a thread of Go
// while the program uses verbs. A handler has room on its stack.
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGURG, SIGALRM, SIGPROF, SIGCHLD, SIGUSR1, SIGUSR2,
			      SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGWINCH, SIGVTALRM, SIGTSTP};
#define N (sizeof signals / sizeof *signals)

static volatile sig_atomic_t alarms, elsewhere, bad_stack;
static pthread_t program;

static char *stack, *stack_end; // of the program's thread

// on_alarm looks whose stack it is on: that of its thread, or an alternate one, and no goroutine's.
static void on_alarm(int sig)
{
	char here;
	stack_t alternate;
	(void)sig;
	if (sigaltstack(NULL, &alternate) ||
	    (!(alternate.ss_flags & SS_ONSTACK) && pthread_equal(pthread_self(), program) && (&here < stack || &here >= stack_end)))
		bad_stack = 1;
	else if (alternate.ss_flags & SS_ONSTACK && alternate.ss_size < 256 * 1024 && pthread_equal(pthread_self(), program))
		bad_stack = 2;
	alarms++;
	if (!pthread_equal(pthread_self(), program))
		elsewhere++;
}

static sigjmp_buf back;
static volatile sig_atomic_t faulted;
static void *volatile where;
static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	faulted = sig;
	where = info->si_addr;
	siglongjmp(back, 1);
}

// exchange_until works until there were so many alarms.
static void exchange_until(struct end *a, struct end *b, int n)
{
	while (alarms < n) {
		post_recv(b, b->qp, 1, 0, 2048);
		post_send(a, 2, 2048, 2048);
		expect_wc(a->cq, 2, IBV_WC_SUCCESS);
		expect_wc(b->cq, 1, IBV_WC_SUCCESS);
		struct ibv_mr *mr = ibv_reg_mr(a->pd, a->buf, 64, 0);
		CHECK(mr);
		FAILS_INT(0, ibv_dereg_mr(mr));
	}
	CHECK(!elsewhere);
	CHECK(!bad_stack, "%d", bad_stack);
}

static void *call(void *e)
{
	struct end *end = e;
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 64, 0);
	CHECK(mr && !ibv_dereg_mr(mr));
	return NULL;
}

// mappings returns how many there are once a thread has come and gone n times.
static int mappings(struct end *e, int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t t;
		CHECK(!pthread_create(&t, NULL, call, e) && !pthread_join(t, NULL));
	}
	FILE *f = fopen("/proc/self/maps", "r");
	CHECK(f);
	int lines = 0;
	for (int c; (c = getc(f)) != EOF;)
		lines += c == '\n';
	fclose(f);
	return lines;
}

// killed_by forks a child that opens a device and does something; it returns the signal that ended it.
static int killed_by(void (*what)(void))
{
	pid_t p = fork();
	if (!p) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		open_device(0);
		what();
		_exit(0);
	}
	int status;
	CHECK(waitpid(p, &status, 0) == p);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static char *volatile nowhere;
static void touch_nothing(void) { *nowhere = 1; }
static void interrupt(void)
{
	kill(getpid(), SIGINT);
	for (;;)
		pause();
}
static void be_told_of_a_fault(void) { kill(getpid(), SIGSEGV); for (;;) pause(); }
static void write_to_nobody(void)
{
	int p[2];
	CHECK(!pipe(p));
	close(p[0]);
	CHECK(write(p[1], "x", 1) == 1);
}

int main(void)
{
	program = pthread_self();
	pthread_attr_t attr;
	size_t size;
	CHECK(!pthread_getattr_np(program, &attr) && !pthread_attr_getstack(&attr, (void **)&stack, &size));
	stack_end = stack + size;
	CHECK(killed_by(touch_nothing) == SIGSEGV);
	CHECK(killed_by(interrupt) == SIGINT);
	CHECK(killed_by(be_told_of_a_fault) == SIGSEGV);
	CHECK(killed_by(write_to_nobody) == SIGPIPE);

	// A handler from before, without an alternate stack, and something ignored.
	struct sigaction a = {.sa_handler = on_alarm};
	CHECK(!sigaction(SIGUSR2, &a, NULL));
	CHECK(signal(SIGHUP, SIG_IGN) != SIG_ERR); // nohup has done so before
	struct sigaction before[N], after;
	for (size_t i = 0; i < N; i++)
		CHECK(!sigaction(signals[i], NULL, &before[i]));
	sigset_t profiling, mask;
	sigemptyset(&profiling);
	sigaddset(&profiling, SIGPROF);
	sigaddset(&profiling, SIGTRAP);
	CHECK(!pthread_sigmask(SIG_BLOCK, &profiling, NULL));

	struct end x, y;
	pair_open(&x, &y, IBV_QPT_RC, 4096);
	for (size_t i = 0; i < N; i++) {
		CHECK(!sigaction(signals[i], NULL, &after));
		CHECK(after.sa_handler == before[i].sa_handler, "signal %d", signals[i]);
	}
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &profiling, &mask));
	CHECK(sigismember(&mask, SIGPROF) && sigismember(&mask, SIGTRAP), "the mask of the program's thread has changed");

	int before_threads = mappings(&x, 1), grown = mappings(&x, 100) - before_threads;
	CHECK(grown < 50, "%d more mappings", grown);

	alarms = 0;
	CHECK(!raise(SIGUSR2) && alarms == 1);
	exchange_until(&x, &y, 1);

	// Alarms that hit calls of verbs: of a handler that was installed by sigaction, then by signal.
	struct itimerval often = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
	CHECK(!sigaction(SIGALRM, &a, NULL));
	alarms = 0;
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	exchange_until(&x, &y, 100);
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	CHECK(signal(SIGALRM, on_alarm) == on_alarm);
	alarms = 0;
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	exchange_until(&x, &y, 100);
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));

	// A profiler counts processor time, also that of other threads.
	CHECK(!sigaction(SIGPROF, &a, NULL));
	alarms = elsewhere = 0;
	CHECK(!setitimer(ITIMER_PROF, &often, NULL));
	while (alarms < 5) {
		struct ibv_mr *mr = ibv_reg_mr(x.pd, x.buf, 64, 0);
		CHECK(mr && !ibv_dereg_mr(mr));
	}
	CHECK(!setitimer(ITIMER_PROF, &off, NULL));
	CHECK(!bad_stack);
	elsewhere = 0;

	// The program's own faults go to the program's handler; peers' accesses to memory that is gone do not.
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(!sigaction(SIGSEGV, &fault, NULL));
	CHECK(!sigaction(SIGSEGV, NULL, &after) && after.sa_sigaction == on_fault && after.sa_flags == SA_SIGINFO);
	if (!sigsetjmp(back, 1)) {
		*(volatile char *)16 = 1;
		CHECK(false, "no fault");
	}
	CHECK(faulted == SIGSEGV && where == (void *)16);
	faulted = 0;
	char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(y.pd, gone, 8192, ALL_ACCESS);
	CHECK(mr);
	take_away(gone, 8192);
	post_rdma(&x, IBV_WR_RDMA_WRITE, 9, 0, 64, (uintptr_t)gone, mr->rkey);
	expect_wc(x.cq, 9, IBV_WC_REM_ACCESS_ERR);
	CHECK(!faulted, "the program was told of a peer's access");
	if (!sigsetjmp(back, 1)) {
		*(volatile char *)24 = 1;
		CHECK(false, "no fault");
	}
	CHECK(where == (void *)24);
	return 0;
}
