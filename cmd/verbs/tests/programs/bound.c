// A thread that is bound to a CPU stays there, and the threads of the library go where the process may. Its timers are as exact as before,
// and those of Go's monitor are not.
#include "check.h"
#include <dirent.h>
#include <sched.h>
#include <sys/prctl.h>

#define ENDS 8

// slack returns how much the timers of a thread may be late, in ns; 0: this process may not know.
static long slack(pid_t id)
{
	char name[64], text[32] = "";
	snprintf(name, sizeof name, "/proc/%d/timerslack_ns", (int)id);
	FILE *f = fopen(name, "r");
	if (f) {
		if (!fgets(text, sizeof text, f))
			text[0] = 0;
		fclose(f);
	}
	return atol(text);
}

int main(void)
{
	CHECK(!prctl(PR_SET_TIMERSLACK, 40000));
	cpu_set_t all, one, now;
	CHECK(!sched_getaffinity(0, sizeof all, &all));
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	CHECK(!sched_setaffinity(0, sizeof one, &one));
	static struct end ends[ENDS]; // each wants more threads
	for (int i = 0; i < ENDS; i++)
		end_open(&ends[i], 0, 4096);
	CHECK(!sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, &one));
	CHECK(prctl(PR_GET_TIMERSLACK) == 40000);
	DIR *d = opendir("/proc/self/task");
	CHECK(d);
	int others = 0, told = 0, late = 0;
	for (struct dirent *t; (t = readdir(d));) {
		pid_t id = atoi(t->d_name);
		if (id && id != getpid() && !sched_getaffinity(id, sizeof now, &now)) {
			CHECK(CPU_EQUAL(&now, &all));
			others++;
			told += slack(id) > 0;
			late += slack(id) >= 1000000;
		}
	}
	CHECK(others > 0 && (!told || late));
	closedir(d);
	for (int i = 0; i < ENDS; i++)
		end_close(&ends[i]);
	return 0;
}
