/*
 * sigaction for programs that load libibverbs.so.1 by dlopen, or by librspreload.so, which has this file, too: the
 * sigaction of that library is not found in place of libc's then, as it is in a program that is linked with it. What it
 * is for: libibverbs/signals.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../include/goroce_hook.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static _Atomic(sigaction_fn *) verbs; // that of libibverbs.so.1, once it is loaded

EXPORT void goroce_hook_join(sigaction_fn *to) { atomic_store(&verbs, to); }

static int act(int sig, const struct sigaction *a, struct sigaction *old)
{
	static _Atomic(sigaction_fn *) libc;
	sigaction_fn *f = atomic_load(&verbs);
	if (f)
		return f(sig, a, old);
	if (!(f = atomic_load(&libc))) {
		f = (sigaction_fn *)dlsym(RTLD_NEXT, "sigaction");
		atomic_store(&libc, f);
	}
	return f(sig, a, old);
}

EXPORT int sigaction(int sig, const struct sigaction *a, struct sigaction *old) { return act(sig, a, old); }

static sighandler_t install(int sig, sighandler_t handler, int flags, int block)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags}, old;
	if (handler == SIG_ERR || sig < 1 || sig >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&a.sa_mask);
	if (block)
		sigaddset(&a.sa_mask, sig);
	return act(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}

EXPORT sighandler_t signal(int sig, sighandler_t handler) { return install(sig, handler, SA_RESTART, 1); }
EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return install(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), 0);
}
