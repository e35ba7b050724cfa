// Calls from a coroutine, on a stack that is not the thread's. The runtime of Go asks for the bounds of the stack then, and
// libc reads /proc/self/maps for them: once, and not in each call.
#include "check.h"

#include <pthread.h>
#include <ucontext.h>

#define CALLS 200

static struct end a;
static __thread ucontext_t caller, coroutine;

static void calls(void)
{
	for (int i = 0; i < CALLS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buf, 64, ALL_ACCESS);
		CHECK(mr);
		FAILS_INT(0, ibv_dereg_mr(mr));
	}
}

// read_so_far returns how many bytes the process has read, or 0 where the kernel does not say.
static unsigned long read_so_far(void)
{
	unsigned long bytes = 0;
	FILE *io = fopen("/proc/self/io", "r");
	if (io && fscanf(io, "rchar: %lu", &bytes) != 1)
		bytes = 0;
	if (io)
		fclose(io);
	return bytes;
}

static void *in_coroutine(void *stack)
{
	calls(); // from the thread's own stack
	unsigned long before = read_so_far();
	CHECK(getcontext(&coroutine) == 0);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = 256 << 10;
	coroutine.uc_link = &caller;
	makecontext(&coroutine, calls, 0);
	CHECK(swapcontext(&caller, &coroutine) == 0);
	unsigned long bytes = read_so_far() - before;
	CHECK(bytes < 64 * CALLS, "%lu bytes read in %d calls", bytes, 2 * CALLS);
	calls();
	return NULL;
}

int main(void)
{
	end_open(&a, 0, 4096);
	in_coroutine(malloc(256 << 10));
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, in_coroutine, malloc(256 << 10)) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	end_close(&a);
	return 0;
}
