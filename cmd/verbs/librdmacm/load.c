// Getting at the Go half, which libibverbs has loaded or loads now.
#include "rs.h"

#include <dlfcn.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../include/goroce_rs_private.h"

#define WILL_NAME "goroce_will"

const struct goroce_cm *cm;
const struct goroce_rs *rs;

static pid_t loaded_in;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool tried;

static void load_once(void)
{
	goroce_cm_table_fn *cm_table = (goroce_cm_table_fn *)goroce_core_symbol("goroce_cm_table");
	goroce_rs_table_fn *rs_table = (goroce_rs_table_fn *)goroce_core_symbol("goroce_rs_table");
	const struct goroce_cm *c = cm_table ? cm_table() : NULL;
	const struct goroce_rs *r = rs_table ? rs_table() : NULL;
	if (c && c->version == GOROCE_CM_VERSION && c->size == sizeof *c && r && r->version == GOROCE_RS_VERSION &&
	    r->size == sizeof *r) {
		goroce_meet();
		c->ask(cm_unpolled);
		rs = r;
		cm = c;
		loaded_in = getpid();
		return;
	}
	if (!goroce_core_get())
		return; // libibverbs has said why
	static const char line[] =
		"goroce: libgoroce.so is of another version than librdmacm.so.1: install both from one build\n";
	if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
		return;
}

// cm_helper returns the path of goroce_will, which is beside this library; empty if that is not known.
const char *cm_helper(void)
{
	static char path[PATH_MAX + sizeof WILL_NAME];
	Dl_info self;
	if (path[0] || !dladdr((void *)cm_helper, &self) || !self.dli_fname || !realpath(self.dli_fname, path))
		return path;
	strcpy(strrchr(path, '/') + 1, WILL_NAME);
	return path;
}

int cm_load(void)
{
	pthread_mutex_lock(&loading);
	if (!tried) {
		tried = true;
		load_once();
	}
	pthread_mutex_unlock(&loading);
	if (!cm)
		return ENODEV;
	goroce_meet(); // it may have waited for another thread that has loaded it
	return 0;
}

// Around a fork: the child has a Go half of its own, if it needs one.
static unsigned int generation;

static void before_fork(void)
{
	cm_heir_lock();
	pthread_mutex_lock(&loading);
	pthread_mutex_lock(&cm_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&cm_lock);
	pthread_mutex_unlock(&loading);
	cm_heir_unlock();
}

// in_child runs after that of libibverbs, which was there first.
static void in_child(void)
{
	if (generation != goroce_generation()) {
		generation = goroce_generation();
		cm = NULL;
		rs = NULL;
		tried = false;
		rs_reopen();
	}
	after_fork();
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

#define LOOK_MS 5
#define STUCK_LOOKS 200 // of which none finds that the Go half goes on: a second

// What a program wrote to a socket and closed goes on to the peer when nothing of the program is left: so TCP has it. Here nobody else has
// the data, so _exit waits, as exit does. The program may call it in a handler of a signal, and in a child without memory of its own.
EXPORT void goroce_rs_exit(int status)
{
	const struct goroce_rs *r = rs;
	if (r && getpid() == loaded_in) {
		uint32_t last = 0;
		for (int still = 0; still < STUCK_LOOKS && __atomic_load_n(&r->behind->sockets, __ATOMIC_ACQUIRE); still++) {
			const struct timespec pause = {0, LOOK_MS * 1000000};
			nanosleep(&pause, NULL);
			uint32_t now = __atomic_load_n(&r->behind->beat, __ATOMIC_RELAXED);
			if (now != last)
				still = 0;
			last = now;
		}
	}
	for (;;)
		syscall(SYS_exit_group, status);
}

EXPORT void _exit(int status) { goroce_rs_exit(status); }
EXPORT void _Exit(int status) { goroce_rs_exit(status); }

// finish tells the peers that the process ends, as the kernel would. The child of a fork has none.
__attribute__((destructor)) static void finish(void)
{
	if (cm && getpid() == loaded_in && !goroce_foreign(generation))
		goroce_finish_by(cm->finish);
}
