/* The queues of threads before the Go half: one for each completion vector. A fake half says which vector a socket has. */
#include "../programs/check.h"
#include "../../../librdmacm/rs_door.c"

static struct goroce_rs table;
const struct goroce_rs *rs = &table;
__thread volatile int goroce_busy;
__thread volatile uint64_t goroce_late;
void goroce_catch_up(void) {}

static atomic_int waits; /* how often threads that wait have looked at the clock, which stands still */
int64_t rs_now_us(void)
{
	waits++;
	return 0;
}

static int vectors[] = {-1, -1, 0, 1, 1, GOROCE_RS_DOORS + 1};
static int vector(goroce_handle socket) { return vectors[socket]; }

static void *passes(void *doors)
{
	uint32_t d = *(uint32_t *)doors;
	rs_enter(d);
	rs_leave(d);
	return NULL;
}

/* waited has another thread go in and out, when this one has left until, and reports whether it had to wait. */
static bool waited(uint32_t doors, uint32_t until)
{
	pthread_t t;
	waits = 0;
	OK(pthread_create(&t, NULL, passes, &doors));
	if (until) {
		while (!waits)
			sched_yield();
		for (uint32_t left = until; left; left &= left - 1)
			CHECK(rs_doors()[__builtin_ctz(left)].outside <= 1);
		rs_leave(until);
	}
	OK(pthread_join(t, NULL));
	return waits;
}

int main(void)
{
	table.vector = vector;
	struct rs early = {.handle = 1}, first = {.handle = 2}, second = {.handle = 3}, third = {.handle = 4}, far = {.handle = 5};
	CHECK(rs_door(&early) == 1 && rs_door(&first) == 1 && rs_all_doors() == 1);
	vectors[1] = 1; /* it is connected */
	CHECK(rs_door(&early) == 2 && rs_door(&second) == 2 && rs_door(&far) == 2 && rs_all_doors() == 3);

	/* Threads with sockets of different vectors are inside at a time. */
	rs_enter(rs_door(&first));
	CHECK(!waited(rs_door(&second), 0));
	/* Those of one come one after the other, and so do those that come for all. */
	CHECK(waited(rs_door(&first), rs_door(&first)));
	rs_enter(rs_door(&third));
	CHECK(waited(rs_door(&second), rs_door(&third)));
	rs_enter(rs_door(&second));
	CHECK(waited(rs_all_doors(), rs_door(&second)));
	rs_enter(rs_all_doors());
	CHECK(waited(rs_door(&second), rs_all_doors()));
	CHECK(!waited(rs_all_doors(), 0));

	/* A handler of a signal that waits ends the wait. */
	rs_enter(1);
	goroce_late = 1;
	rs_enter(1);
	rs_leave(1);
	goroce_late = 0;

	/* The child of a fork has nobody inside. */
	rs_enter(1);
	rs_reopen();
	CHECK(!waited(1, 0));
	return 0;
}
