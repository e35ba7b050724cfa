// The queue of threads before the Go half.
#include "rs.h"

#include <sched.h>

static atomic_bool taken;
static _Atomic int32_t outside;

const int32_t *rs_outside(void) { return (const int32_t *)&outside; }

#define PATIENCE_US 100000 // after that who is inside has lost its CPU, or waits for a lock in Go

static bool take(void) { return !atomic_load_explicit(&taken, memory_order_relaxed) && !atomic_exchange(&taken, true); }

// Who waits lets others run, and does not sleep: a call takes a few microseconds, and to wake a thread
// takes as long. A handler of a signal that waits for the call ends this.
void rs_enter(void)
{
	if (take())
		return;
	atomic_fetch_add(&outside, 1);
	for (int64_t start = rs_now_us(); !take() && !goroce_late && rs_now_us() - start < PATIENCE_US;)
		sched_yield();
	atomic_fetch_sub(&outside, 1);
}

void rs_leave(void) { atomic_store(&taken, false); }

void rs_reopen(void)
{
	atomic_store(&taken, false);
	atomic_store(&outside, 0);
}
