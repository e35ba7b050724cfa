/*
 * Go makes a thread from whichever wants one, and that may be a thread of the program in a call, bound to a CPU where it polls. The new
 * one would have that CPU alone. So this stands before libc's function in this library, and gives it those of the process. That
 * one is looked up as this library would have found it: a sanitizer has its own before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "../include/goroce_core.h"

static cpu_set_t all;
static int known;

__attribute__((visibility("hidden"))) void goroce_run_on(const cpu_set_t *cpus)
{
	all = *cpus;
	__atomic_store_n(&known, 1, __ATOMIC_RELEASE);
}

__attribute__((visibility("hidden"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	typedef int creates(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	creates *create = (creates *)dlsym(RTLD_DEFAULT, "pthread_create");
	int err = create ? create(thread, attr, run, arg) : ENOSYS;
	if (!err && __atomic_load_n(&known, __ATOMIC_ACQUIRE))
		pthread_setaffinity_np(*thread, sizeof all, &all); // it may have ended; Go has not detached it yet
	return err;
}
