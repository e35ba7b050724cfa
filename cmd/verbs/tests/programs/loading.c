// Handlers that another thread installs while the libraries load their Go half stay: before it is loaded, and after it has taken
// its own signals.
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

static volatile sig_atomic_t handled;
static void handler(int sig) { handled = sig; }

static sigjmp_buf back;
static void on_fault(int sig)
{
	handled = sig;
	siglongjmp(back, 1);
}

static void install(int sig, void (*f)(int))
{
	struct sigaction a = {.sa_handler = f}, old, now;
	CHECK(!sigaction(sig, &a, &old));
	CHECK(old.sa_handler == SIG_DFL, "of %d", sig);
	CHECK(!sigaction(sig, NULL, &now));
	CHECK(now.sa_handler == f, "of %d", sig);
}

static void *first(void *arg)
{
	CHECK(signal(SIGUSR1, handler) == SIG_DFL);
	install(SIGSEGV, on_fault);
	return arg;
}

static void *second(void *arg)
{
	install(SIGUSR2, handler);
	install(SIGBUS, on_fault);
	CHECK(signal(SIGHUP, SIG_IGN) == SIG_DFL);
	return arg;
}

static int loads;

static void by_another(void *(*f)(void *))
{
	pthread_t t;
	CHECK(!pthread_create(&t, NULL, f, NULL));
	CHECK(!pthread_join(t, NULL));
}

// dlopen is the one that libibverbs calls.
void *dlopen(const char *file, int mode)
{
	void *(*libc)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	bool core = file && strstr(file, "libgoroce.so");
	if (core)
		by_another(first);
	void *l = libc(file, mode);
	if (core) {
		loads++;
		by_another(second);
	}
	return l;
}

static void has(int sig, void (*f)(int))
{
	struct sigaction now;
	CHECK(!sigaction(sig, NULL, &now));
	CHECK(now.sa_handler == f, "of %d", sig);
}

int main(void)
{
	CHECK(open_device(0));
	CHECK(loads == 1, "%d", loads);
	has(SIGUSR1, handler);
	has(SIGUSR2, handler);
	has(SIGHUP, SIG_IGN);
	has(SIGSEGV, on_fault);
	has(SIGBUS, on_fault);
	CHECK(!raise(SIGUSR1) && handled == SIGUSR1);
	CHECK(!raise(SIGUSR2) && handled == SIGUSR2);
	CHECK(!raise(SIGHUP) && handled == SIGUSR2);
	if (!sigsetjmp(back, 1))
		*(volatile int *)8 = 1;
	CHECK(handled == SIGSEGV);
	if (!sigsetjmp(back, 1))
		raise(SIGBUS);
	CHECK(handled == SIGBUS);
	return 0;
}
