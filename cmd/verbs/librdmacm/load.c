// Getting at the Go half, which libibverbs has loaded or loads now.
#include "cm.h"

#include <stdio.h>
#include <unistd.h>

const struct goroce_cm *cm;

static void load_once(void)
{
	goroce_cm_table_fn *table = (goroce_cm_table_fn *)goroce_core_symbol("goroce_cm_table");
	if (!table)
		return; // libibverbs has said why
	sigset_t old;
	cm_enter(&old);
	const struct goroce_cm *c = table();
	cm_leave(&old);
	if (c->version != GOROCE_CM_VERSION || c->size != sizeof *c) {
		static const char line[] = "goroce: libgoroce.so is of another version than librdmacm.so.1: install both from one build\n";
		if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
			return;
		return;
	}
	cm = c;
}

int cm_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (goroce_forked())
		return ENODEV;
	pthread_once(&once, load_once);
	return cm ? 0 : ENODEV;
}

void cm_enter(sigset_t *old)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
	sigset_t all;
	sigfillset(&all);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

void cm_leave(const sigset_t *old) { pthread_sigmask(SIG_SETMASK, old, NULL); }
