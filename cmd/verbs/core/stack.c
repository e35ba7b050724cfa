/*
 * When C calls Go, the runtime asks for the bounds of the thread's stack, unless it knows them and is within. A program with
 * coroutines calls from other stacks, so the runtime asks each time, and libc reads all of /proc/self/maps each time for the main
 * thread. QEMU spends most of a migration in that. The bounds of a thread do not change, so this stands before libc's function
 * in this library, and asks it once for each thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

static __thread void *low;
static __thread size_t size;

__attribute__((visibility("hidden"))) int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	if (size && thread == pthread_self()) {
		int err = pthread_attr_init(attr);
		return err ? err : pthread_attr_setstack(attr, low, size);
	}
	int (*ask)(pthread_t, pthread_attr_t *) = (int (*)(pthread_t, pthread_attr_t *))dlsym(RTLD_DEFAULT, "pthread_getattr_np");
	if (!ask)
		return ENOSYS;
	int err = ask(thread, attr);
	if (!err && thread == pthread_self())
		pthread_attr_getstack(attr, &low, &size);
	return err;
}
