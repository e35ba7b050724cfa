// Loading the Go half, when the first device is opened.
#include "shim.h"
#include "signals.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define CORE_NAME "libgoroce.so"

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
	// It may never go: Go's threads run in it. That is also for a program that closes this library again.
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

// load_once loads the core with all signals blocked: the threads of Go inherit that, so that the signals of the
// program are not delivered to them.
static void load_once(void)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	shim_before_go();
	library = open_core();
	goroce_core_table_fn *table = library ? (goroce_core_table_fn *)dlsym(library, "goroce_core_table") : NULL;
	const struct goroce_core *c = table ? table() : NULL;
	if (c)
		shim_after_go((void *)table);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!c)
		shim_say("%s: %s belongs beside libibverbs.so.1", dlerror(), CORE_NAME);
	else if (c->version != GOROCE_CORE_VERSION || c->size != sizeof *c)
		shim_say("%s is of another version than libibverbs.so.1: install both from one build", CORE_NAME);
	else
		core = c;
}

int shim_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_once);
	return core ? 0 : ENODEV;
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
