// A queue that is resized while another thread looks at it, and finds nothing: the ring that it looks at goes. The look is stopped
// behind each of its instructions, one a round, until the queue is resized, or for a moment if the look has the lock.
#include "check.h"

#ifndef __x86_64__
int main(void) { return 0; } // there is no trap flag that a program could set
#else
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>

#define STEPS 100 // more than a look has
#define TRAP_FLAG 0x100

static struct ibv_cq_ex *cq;
static volatile int step, stop_at;
static sem_t reached, resized;
static bool over;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	if (step++ == stop_at) {
		struct timespec t;
		sem_post(&reached);
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 2000000;
		if (t.tv_nsec >= 1000000000)
			t.tv_sec++, t.tv_nsec -= 1000000000;
		while (sem_timedwait(&resized, &t) && errno == EINTR)
			;
	}
	if (step > STEPS)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void trap(bool on)
{
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void *resize(void *arg)
{
	(void)arg;
	for (int i = 0;; i++) {
		CHECK(!sem_wait(&reached));
		if (__atomic_load_n(&over, __ATOMIC_ACQUIRE))
			return NULL;
		FAILS_INT(0, ibv_resize_cq(ibv_cq_ex_to_cq(cq), i % 2 ? 8 : 5000));
		sem_post(&resized);
	}
}

int main(void)
{
	struct ibv_context *c = open_device(0);
	struct ibv_cq_init_attr_ex a = {.cqe = 8};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_wc wc;
	struct sigaction on = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	pthread_t t;
	CHECK(cq = ibv_create_cq_ex(c, &a));
	CHECK(!sem_init(&reached, 0, 0) && !sem_init(&resized, 0, 0));
	CHECK(!sigaction(SIGTRAP, &on, NULL));
	CHECK(!pthread_create(&t, NULL, resize, NULL));
	for (int i = 0; i < 2 * STEPS; i++) {
		int n;
		step = 0;
		stop_at = i / 2;
		trap(true);
		n = i % 2 ? ibv_start_poll(cq, &none) : ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc);
		trap(false);
		CHECK(n == (i % 2 ? ENOENT : 0), "is %d in round %d", n, i);
		if (step <= stop_at)
			sem_post(&reached); // the look was shorter
		CHECK(!sem_trywait(&resized) || errno == EAGAIN);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	sem_post(&reached);
	CHECK(!pthread_join(t, NULL));
	FAILS_INT(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	FAILS_INT(0, ibv_close_device(c));
	return 0;
}
#endif
