// A thread that is bound to a CPU stays there, and the threads of the library go where the process may.
#include "check.h"
#include <dirent.h>
#include <sched.h>

#define ENDS 8

int main(void)
{
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
	DIR *d = opendir("/proc/self/task");
	CHECK(d);
	int others = 0;
	for (struct dirent *t; (t = readdir(d));) {
		pid_t id = atoi(t->d_name);
		if (id && id != getpid() && !sched_getaffinity(id, sizeof now, &now)) {
			CHECK(CPU_EQUAL(&now, &all));
			others++;
		}
	}
	CHECK(others > 0);
	closedir(d);
	for (int i = 0; i < ENDS; i++)
		end_close(&ends[i]);
	return 0;
}
