// Loading the Go half, when the first device is opened.
#include "shim.h"
#include "signals.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#define CORE_NAME "libgoroce.so"
#define MAX_GENERATIONS 64 // of processes that each open devices and fork

const struct goroce_core *core;
static void *library;

// shim_say writes one line for the user of the program.
void shim_say(const char *format, ...)
{
	char line[1024];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n > sizeof line - 2)
		n = sizeof line - 2;
	line[n] = '\n';
	char out[sizeof line + 16];
	n = snprintf(out, sizeof out, "goroce: %.*s", n + 1, line);
	if (write(STDERR_FILENO, out, (size_t)n) < 0)
		return;
}

// copy_file makes a file in memory that is like another one.
static int copy_file(const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create(CORE_NAME, MFD_CLOEXEC);
	ssize_t n = from < 0 || to < 0 ? -1 : 1;
	while (n > 0)
		n = sendfile(to, from, NULL, 1 << 30);
	if (from >= 0)
		close(from);
	if (n < 0 && to >= 0) {
		close(to);
		to = -1;
	}
	return to;
}

// open_copy opens the library again in the child of a fork, where it is loaded already and cannot be used: under another name, and
// as another file, or the loader would return the one that is there.
static void *open_copy(const char *path)
{
	int fd = copy_file(path);
	if (fd < 0)
		return NULL;
	char name[64 + 2 * MAX_GENERATIONS];
	int n = snprintf(name, sizeof name, "/proc/self/fd/");
	// Descriptors have the same numbers in parent and child.
	for (unsigned int i = 0; i < shim_generation && i < MAX_GENERATIONS; i++)
		n += snprintf(name + n, sizeof name - (size_t)n, "./");
	snprintf(name + n, sizeof name - (size_t)n, "%d", fd);
	void *l = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	close(fd);
	return l;
}

// open_core opens the library beside this one.
static void *open_core(void)
{
	char path[PATH_MAX + sizeof CORE_NAME];
	Dl_info self;
	if (!dladdr((void *)open_core, &self) || !self.dli_fname)
		return dlopen(CORE_NAME, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, PATH_MAX, "%s", self.dli_fname);
	char *slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, CORE_NAME);
	if (shim_generation)
		return open_copy(path);
	// It may never go: Go's threads run in it. That is also for a program that closes this library again.
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void say_missing(void)
{
	const char *why = dlerror();
	shim_say("%s: %s belongs beside libibverbs.so.1", why ? why : strerror(errno), CORE_NAME);
}

#define BEAT_US 200
#define STUCK_BEATS 1250 // of which none is heard: a quarter of a second
#define ENDER_STACK (256 << 10)

// ending is what a thread does at the end of the process. It outlives a thread that is stuck.
static struct ending {
	void (*finish)(uint32_t *beat);
	uint32_t beat, done;
} endings[2]; // librdmacm's, and this library's

static sem_t wanted;
static struct ending *_Atomic next;
static pid_t ender_in; // the process that has the thread; the child of a fork has not

// ender waits for the end of the process. It has called Go once before, so that it needs no memory of malloc then.
static void *ender(void *table)
{
	((const struct goroce_core *)table)->started();
	for (;;) {
		while (sem_wait(&wanted))
			;
		struct ending *e = next;
		e->finish(&e->beat);
		__atomic_store_n(&e->done, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

// start_ender wants all signals blocked, for the thread.
static void start_ender(const struct goroce_core *table)
{
	pthread_attr_t attr;
	pthread_t t;
	sem_init(&wanted, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, ENDER_STACK);
	if (!pthread_create(&t, &attr, ender, (void *)table))
		ender_in = getpid();
	pthread_attr_destroy(&attr);
}

static void *end(void *arg)
{
	struct ending *e = arg;
	e->finish(&e->beat);
	__atomic_store_n(&e->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

// ask has another thread run what e says: the one that is there, unless the ending before is stuck in it.
static bool ask(struct ending *e)
{
	const struct ending *before = next;
	if (ender_in == getpid() && (!before || __atomic_load_n(&before->done, __ATOMIC_ACQUIRE))) {
		next = e;
		return !sem_post(&wanted);
	}
	sigset_t all, old;
	pthread_t t;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int failed = pthread_create(&t, NULL, end, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !failed && !pthread_detach(t);
}

// goroce_finish_by runs a function of the Go half at the end of the process, in a thread of its own: a handler of a signal that calls exit
// may have interrupted Go, in this thread. Then the function may be stuck, for what this thread holds; it is left alone when it has not
// moved its count for a while. The thread is there before, since the handler may have interrupted malloc, which starting one needs.
EXPORT void goroce_finish_by(void (*finish)(uint32_t *beat))
{
	struct ending *e = &endings[finish == core->finish];
	e->finish = finish;
	if (!ask(e))
		return;
	uint32_t last = 0;
	for (int still = 0; still < STUCK_BEATS && !__atomic_load_n(&e->done, __ATOMIC_ACQUIRE); still++) {
		const struct timespec pause = {0, BEAT_US * 1000};
		nanosleep(&pause, NULL);
		uint32_t now = __atomic_load_n(&e->beat, __ATOMIC_RELAXED);
		if (now != last)
			still = 0;
		last = now;
	}
}

// cpus are the CPUs that the process may run on, before its threads choose.
static cpu_set_t cpus;
static bool cpus_known;

__attribute__((constructor)) static void note_cpus(void) { cpus_known = !sched_getaffinity(0, sizeof cpus, &cpus); }

// Go's monitor asks to sleep for 20 us, again and again while the program's threads call: a thread that enters Go leaves its processor of
// Go's runtime as if in a system call, and after 10 ms on one processor the monitor takes it away at each look. A look costs two
// switches of threads, and the next call has to find a processor. With this slack of its timers, in ns, the monitor looks once in a millisecond.
#define MONITOR_SLACK 1000000

// load_once loads the core with all signals blocked, and on all CPUs: the threads of Go inherit both, and the slack of timers. So the signals of the program are not
// delivered to them, and where it has bound this thread to a CPU and polls there, as SPDK and DPDK do, they have others.
static void load_once(void)
{
	sigset_t all, old;
	cpu_set_t bound;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool freed = cpus_known && !sched_getaffinity(0, sizeof bound, &bound) && !sched_setaffinity(0, sizeof cpus, &cpus);
	int slack = prctl(PR_GET_TIMERSLACK);
	prctl(PR_SET_TIMERSLACK, MONITOR_SLACK);
	shim_before_go();
	library = open_core();
	goroce_core_table_fn *table = library ? (goroce_core_table_fn *)dlsym(library, "goroce_core_table") : NULL;
	const struct goroce_core *c = table ? table() : NULL;
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, slack);
	shim_after_go(c ? (void *)table : NULL);
	if (c) {
		if (c->version == GOROCE_CORE_VERSION && c->size == sizeof *c) {
			if (cpus_known)
				c->run_on(&cpus);
			start_ender(c);
		}
	}
	if (freed)
		sched_setaffinity(0, sizeof bound, &bound);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!c)
		say_missing();
	else if (c->version != GOROCE_CORE_VERSION || c->size != sizeof *c)
		shim_say("%s is of another version than libibverbs.so.1: install both from one build", CORE_NAME);
	else {
		if (shim_generation)
			c->disown();
		shim_heir_begin();
		core = c;
	}
}

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static pid_t loaded_in;

// finish gives what the program has posted the time to arrive. It runs after that of librdmacm, which says goodbye to connections, and
// does the same before. The child of a fork has posted nothing.
__attribute__((destructor)) static void finish(void)
{
	if (core && getpid() == loaded_in && __atomic_load_n(&shim_qps, __ATOMIC_RELAXED) > 0)
		goroce_finish_by(core->finish);
}

int shim_load(void)
{
	pthread_mutex_lock(&loading);
	if (!tried) {
		tried = true;
		load_once();
		loaded_in = getpid();
	}
	pthread_mutex_unlock(&loading);
	return core ? 0 : ENODEV;
}

void shim_fork_lock(void) { pthread_mutex_lock(&loading); }
void shim_fork_unlock(void) { pthread_mutex_unlock(&loading); }

// shim_unload leaves the library of the parent where it is: nothing of it runs here.
void shim_unload(void)
{
	core = NULL;
	library = NULL;
	tried = false;
	shim_thread_known = false;
}

EXPORT const struct goroce_core *goroce_core_get(void)
{
	shim_load();
	return core;
}

EXPORT void *goroce_core_symbol(const char *name)
{
	return shim_load() ? NULL : dlsym(library, name);
}

EXPORT goroce_handle goroce_context_handle(struct ibv_context *c) { return to_context(c)->handle; }
EXPORT goroce_handle goroce_pd_handle(struct ibv_pd *pd) { return pd->handle; }
EXPORT goroce_handle goroce_cq_handle(struct ibv_cq *cq) { return to_cq(cq)->handle; }
EXPORT goroce_handle goroce_qp_handle(struct ibv_qp *qp) { return to_qp(qp)->handle; }
EXPORT goroce_handle goroce_srq_handle(struct ibv_srq *srq) { return to_srq(srq)->handle; }
EXPORT const char *goroce_device_addr(struct ibv_device *d) { return to_device(d)->addr; }
