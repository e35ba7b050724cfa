// The queues of threads before the Go half.
#include "rs.h"

#include <sched.h>

static struct goroce_rs_door doors[GOROCE_RS_DOORS];
static atomic_uint used = 1;

const struct goroce_rs_door *rs_doors(void) { return doors; }

uint32_t rs_all_doors(void) { return atomic_load(&used); }

uint32_t rs_door(struct rs *s)
{
	uint32_t door = atomic_load_explicit(&s->door, memory_order_relaxed);
	if (door)
		return door;
	int vector = RS(vector, atomic_load(&s->handle));
	if (vector < 0)
		return 1;
	door = UINT32_C(1) << vector % GOROCE_RS_DOORS;
	atomic_fetch_or(&used, door);
	atomic_store(&s->door, door);
	return door;
}

#define PATIENCE_US 100000 // after that who is inside has lost its CPU, or waits for a lock in Go

static bool take(struct goroce_rs_door *d)
{
	return !__atomic_load_n(&d->taken, __ATOMIC_RELAXED) && !__atomic_exchange_n(&d->taken, 1, __ATOMIC_SEQ_CST);
}

// Who waits lets others run, and does not sleep: a call takes a few microseconds, and to wake a thread
// takes as long. A handler of a signal that waits for the call ends this.
static void enter(struct goroce_rs_door *d)
{
	if (take(d))
		return;
	__atomic_fetch_add(&d->outside, 1, __ATOMIC_SEQ_CST);
	for (int64_t start = rs_now_us(); !take(d) && !goroce_late && rs_now_us() - start < PATIENCE_US;)
		sched_yield();
	__atomic_fetch_sub(&d->outside, 1, __ATOMIC_SEQ_CST);
}

void rs_enter(uint32_t which)
{
	for (; which; which &= which - 1) // in one order: nobody waits for one who waits for it
		enter(&doors[__builtin_ctz(which)]);
}

void rs_leave(uint32_t which)
{
	for (; which; which &= which - 1)
		__atomic_store_n(&doors[__builtin_ctz(which)].taken, 0, __ATOMIC_SEQ_CST);
}

void rs_reopen(void) { memset(doors, 0, sizeof doors); }
