/*
 * The signals of the program, and those that Go needs.
 *
 * Go code runs on small stacks of its own, also when a thread of the program has called it. So a handler of the
 * program must run on the alternate stack that Go gives each such thread: all handlers get SA_ONSTACK. Go needs
 * SIGSEGV and SIGBUS, to turn an access to registered memory that the program has unmapped into an error of the
 * queue pair: both are handled here, which passes faults in Go code on to Go, and all others to whatever the program
 * has asked for. Every other signal is as it was before the Go half was loaded.
 *
 * Therefore this library has sigaction and signal of its own, under the version that libc's have, so that the
 * programs and libraries that are linked get these. Where the lookup does not find them, as for a program that
 * loads this library by dlopen, shim_check_signals looks from time to time what has changed.
 */
#include "signals.h"
#include "shim.h"
#include "../include/goroce_hook.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static sigaction_fn *libc_sigaction(void)
{
	static _Atomic(sigaction_fn *) found;
	sigaction_fn *f = atomic_load(&found);
	if (!f) {
		f = (sigaction_fn *)dlsym(RTLD_NEXT, "sigaction");
		if (!f) { // in a program that is linked with librdmacm alone libc comes before this library
			void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
			if (libc)
				f = (sigaction_fn *)dlsym(libc, "sigaction");
		}
		atomic_store(&found, f);
	}
	return f;
}

static bool catches(const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

// faults are the two signals that are shared with Go.
static const int faults[] = {SIGSEGV, SIGBUS};
static int fault_index(int sig) { return sig == SIGSEGV ? 0 : sig == SIGBUS ? 1 : -1; }

static struct {
	atomic_bool on;		     // Go is there
	bool loading;		     // it is about to be
	struct sigaction program[2]; // what the program has asked for
	struct sigaction go[2];
	uintptr_t text, text_end; // of the Go half
	atomic_flag lock;	  // of program, loading and before; taken with all signals blocked
} shared = {.lock = ATOMIC_FLAG_INIT};

static void lock(sigset_t *old)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	while (atomic_flag_test_and_set_explicit(&shared.lock, memory_order_acquire))
		;
}

static void unlock(const sigset_t *old)
{
	atomic_flag_clear_explicit(&shared.lock, memory_order_release);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

// pc_of returns where a signal has interrupted its thread.
static uintptr_t pc_of(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)u->uc_mcontext.pc;
#elif defined(__riscv)
	return (uintptr_t)u->uc_mcontext.__gregs[REG_PC];
#else
#error "say where the program counter of a ucontext_t is"
#endif
}

static bool in_go(const siginfo_t *info, const ucontext_t *u)
{
	if (info->si_code <= 0) // sent by somebody
		return false;
	uintptr_t pc = pc_of(u);
	return pc >= shared.text && pc < shared.text_end;
}

// default_action does what would have happened without a handler.
static void default_action(int sig, const siginfo_t *info)
{
	struct sigaction a = {.sa_handler = SIG_DFL};
	libc_sigaction()(sig, &a, NULL);
	// A fault happens again when this returns. What was sent has to be sent again.
	if (info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), sig);
}

EXPORT __thread volatile int goroce_busy __attribute__((tls_model("initial-exec")));
EXPORT __thread volatile uint64_t goroce_late __attribute__((tls_model("initial-exec"))); // the signals that wait, blocked

// call runs a handler of the program's, which may leave for good.
static void call(int sig, const struct sigaction *a, siginfo_t *info, void *context, int err)
{
	int busy = goroce_busy;
	goroce_busy = 0;
	errno = err;
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(sig, info, context);
	else
		a->sa_handler(sig);
	goroce_busy = busy;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	int i = fault_index(sig), saved = errno;
	if (in_go(info, context)) {
		// Go's handler runs with everything blocked. The mask comes back with the context.
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		uintptr_t at = pc_of(context);
		shared.go[i].sa_sigaction(sig, info, context);
		if (pc_of(context) == at)
			default_action(sig, info); // it knows no way out, and the fault would come for ever
		errno = saved;
		return;
	}
	sigset_t old;
	lock(&old);
	struct sigaction a = shared.program[i];
	if (catches(&a) && a.sa_flags & SA_RESETHAND)
		shared.program[i].sa_handler = SIG_DFL, shared.program[i].sa_flags &= ~SA_SIGINFO;
	unlock(&old);
	if (!catches(&a)) {
		if (a.sa_handler == SIG_DFL || info->si_code > 0) // a fault cannot be ignored
			default_action(sig, info);
		errno = saved;
		return;
	}
	sigset_t mask = a.sa_mask;
	if (!(a.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	call(sig, &a, info, context, saved);
}

/*
 * A handler that interrupts a call of the Go half waits until it is over: it may call verbs by itself, and Go ends a process for
 * that, or leave by longjmp, and what it leaves would be Go's, locks and a thread that is in a call for ever. So handlers but those of
 * faults are on_signal's to call.
 */
static struct sigaction handlers[NSIG]; // under shared.lock

EXPORT __thread volatile unsigned int goroce_handled __attribute__((tls_model("initial-exec")));

__thread volatile unsigned int shim_interrupted __attribute__((tls_model("initial-exec")));

// of_instruction reports whether a signal is of what the thread has just done, as a trap is: the kernel ends a process that makes one wait.
static bool of_instruction(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGTRAP || sig == SIGILL || sig == SIGFPE || sig == SIGSYS);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	// It comes again, to this thread, when it is unblocked.
	if (goroce_busy && !of_instruction(sig, info) && !syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), sig, info)) {
		sigaddset(&((ucontext_t *)context)->uc_sigmask, sig);
		goroce_late |= UINT64_C(1) << (sig - 1);
		errno = saved;
		return;
	}
	goroce_handled++;
	sigset_t old;
	lock(&old);
	struct sigaction a = handlers[sig];
	if (a.sa_flags & SA_RESETHAND)
		libc_sigaction()(sig, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	unlock(&old);
	if (!(a.sa_flags & SA_RESTART))
		shim_interrupted++;
	call(sig, &a, info, context, saved);
}

// handle makes a handler of the program's one that may wait. shared.lock is held, or there is one thread.
static int handle(int sig, const struct sigaction *a, struct sigaction *old)
{
	struct sigaction here = *a;
	here.sa_sigaction = on_signal;
	here.sa_flags = (int)((unsigned)(a->sa_flags | SA_SIGINFO | SA_ONSTACK) & ~(unsigned)SA_RESETHAND);
	struct sigaction before = handlers[sig];
	handlers[sig] = *a;
	int r = libc_sigaction()(sig, &here, old);
	if (r)
		handlers[sig] = before;
	return r;
}

EXPORT void goroce_catch_up(void)
{
	int saved = errno;
	uint64_t which = goroce_late;
	sigset_t set;
	sigemptyset(&set);
	for (int sig = 1; sig <= 64; sig++)
		if (which >> (sig - 1) & 1)
			sigaddset(&set, sig);
	goroce_late = 0;
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	errno = saved;
}

static const struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER};

static __thread bool forking __attribute__((tls_model("initial-exec"))); // this thread has the lock, around a fork

static struct sigaction before[NSIG]; // what the program has asked for, while Go is being loaded

// shim_sigaction is sigaction of libc, for a program that shares its process with Go. It takes the lock, so that no call falls
// between what shim_before_go notes and what shim_after_go puts back.
int shim_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	sigaction_fn *libc = libc_sigaction(); // the lookup takes a lock of the loader
	if (sig < 1 || sig >= NSIG)
		return libc(sig, act, old);
	int i = fault_index(sig), failed = 0;
	struct sigaction on_stack, was;
	sigset_t mask;
	if (!forking)
		lock(&mask);
	bool on = atomic_load(&shared.on);
	struct sigaction asked = handlers[sig];
	struct sigaction *kept = on ? i < 0 ? NULL : &shared.program[i] : shared.loading ? &before[sig] : NULL;
	if (kept)
		was = *kept;
	if (kept && i >= 0) {
		// Go has the signal, or is about to take it.
	} else if (on && act && catches(act)) {
		failed = handle(sig, act, &was);
	} else {
		const struct sigaction *to = act;
		if (act && catches(act)) {
			on_stack = *act;
			on_stack.sa_flags |= SA_ONSTACK;
			to = &on_stack;
		}
		failed = libc(sig, to, kept ? NULL : &was);
	}
	if (kept && act && !failed)
		*kept = *act;
	if (!forking)
		unlock(&mask);
	if (old && !failed)
		*old = was.sa_flags & SA_SIGINFO && was.sa_sigaction == on_signal ? asked : was;
	return failed;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old) { return shim_sigaction(sig, act, old); }

static sighandler_t install(int sig, sighandler_t handler, int flags, bool block)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags}, old;
	sigemptyset(&a.sa_mask);
	if (block)
		sigaddset(&a.sa_mask, sig);
	if (handler == SIG_ERR || sig < 1 || sig >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return shim_sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}

EXPORT sighandler_t signal(int sig, sighandler_t handler) { return install(sig, handler, SA_RESTART, true); }
EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return install(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

// find_text finds the code of the library that a function is in.
struct where {
	uintptr_t address, start, end;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	struct where *w = data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && w->address >= start && w->address < start + p->p_memsz) {
			w->start = start;
			w->end = start + p->p_memsz;
			return 1;
		}
	}
	return 0;
}

/*
 * The alternate stack of Go has 32 KiB, without a guard: a handler that needs more, such as one that writes a report of a
 * crash, overwrites Go's heap. So each thread of the program has a larger one, unless it has its own. Go takes what it finds.
 */
#define GUARD 65536 // a page, whatever their size
#define ROOM (256 * 1024)

static pthread_key_t roomy;

static void give_up_room(void *stack)
{
	stack_t now, none = {.ss_flags = SS_DISABLE};
	if (!sigaltstack(NULL, &now) && now.ss_sp == (char *)stack + GUARD)
		sigaltstack(&none, NULL);
	munmap(stack, GUARD + ROOM);
}

static bool has_key;
static void make_key(void) { has_key = !pthread_key_create(&roomy, give_up_room); }

static void make_room(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	stack_t now;
	pthread_once(&once, make_key);
	if (!has_key || sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE))
		return;
	char *stack = mmap(NULL, GUARD + ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		return; // with Go's
	stack_t s = {.ss_sp = stack + GUARD, .ss_size = ROOM};
	if (mprotect(s.ss_sp, ROOM, PROT_READ | PROT_WRITE) || pthread_setspecific(roomy, stack) || sigaltstack(&s, NULL)) {
		pthread_setspecific(roomy, NULL);
		munmap(stack, GUARD + ROOM);
	}
}

void shim_before_go(void)
{
	sigset_t mask;
	libc_sigaction();
	lock(&mask);
	shared.loading = true;
	for (int sig = 1; sig < NSIG; sig++)
		if (libc_sigaction()(sig, NULL, &before[sig]))
			before[sig] = (struct sigaction){.sa_handler = SIG_DFL};
	unlock(&mask);
	make_room(); // the first call of a Go function is part of loading it
}

void shim_after_go(void *function)
{
	struct where w = {.address = (uintptr_t)function};
	if (function)
		dl_iterate_phdr(find_text, &w);
	shared.text = w.start;
	shared.text_end = w.end;
	sigset_t mask;
	lock(&mask);
	for (int sig = 1; sig < NSIG; sig++) {
		int i = fault_index(sig);
		struct sigaction a = before[sig];
		if (i >= 0 && function) {
			libc_sigaction()(sig, NULL, &shared.go[i]);
			shared.program[i] = a;
			libc_sigaction()(sig, &ours, NULL);
			continue;
		}
		if (catches(&a) && !(a.sa_flags & SA_SIGINFO && a.sa_sigaction == on_signal))
			handle(sig, &a, NULL);
		else
			libc_sigaction()(sig, &a, NULL); // what cannot be caught refuses, too
	}
	shared.loading = false;
	atomic_store(&shared.on, function != NULL);
	unlock(&mask);
}

static sigset_t fork_mask;
void shim_signals_lock(void)
{
	lock(&fork_mask);
	forking = true;
}

void shim_signals_unlock(void)
{
	forking = false;
	unlock(&fork_mask);
}

void shim_signals_without_go(void)
{
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		libc_sigaction()(faults[i], &shared.program[i], NULL);
	atomic_store(&shared.on, false);
}

// A preloaded libgoroce_hook.so comes before this library and hands the calls on.
static bool hooked;

__attribute__((constructor)) static void join_hook(void)
{
	goroce_hook_join_fn *join = (goroce_hook_join_fn *)dlsym(RTLD_DEFAULT, "goroce_hook_join");
	if (join) {
		join(shim_sigaction);
		hooked = true;
	}
}

// interposed reports whether the program's calls of sigaction get here.
static bool interposed(void)
{
	static atomic_int known; // 1: no, 2: yes
	int k = atomic_load(&known);
	if (!k) {
		Dl_info found, here; // "sigaction" here is what the lookup finds, too
		void *f = dlsym(RTLD_DEFAULT, "sigaction");
		k = hooked || (f && dladdr(f, &found) && dladdr(&shared, &here) && found.dli_fbase == here.dli_fbase) ? 2 : 1;
		atomic_store(&known, k);
	}
	return k == 2;
}

// epoll_wait ends with EINTR also when the process was stopped and goes on, as for a debugger: no call
// of a socket does. Handlers past this library are not counted: it may have been one of them.
EXPORT bool goroce_was_stopped(unsigned int handled)
{
	for (int sig = 1; sig < NSIG && !interposed(); sig++) {
		struct sigaction a;
		if (fault_index(sig) < 0 && !libc_sigaction()(sig, NULL, &a) && catches(&a) && !(a.sa_flags & SA_SIGINFO && a.sa_sigaction == on_signal))
			return false;
	}
	return goroce_handled == handled;
}

void shim_check_signals(void)
{
	if (!atomic_load(&shared.on) || interposed())
		return;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction now;
		if (libc_sigaction()(sig, NULL, &now))
			continue;
		int i = fault_index(sig);
		if (i >= 0) {
			if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault)
				continue;
			sigset_t mask;
			lock(&mask);
			shared.program[i] = now;
			unlock(&mask);
			libc_sigaction()(sig, &ours, NULL);
		} else if (catches(&now) && !(now.sa_flags & SA_ONSTACK)) {
			now.sa_flags |= SA_ONSTACK;
			libc_sigaction()(sig, &now, NULL);
		}
	}
}

__thread bool shim_thread_known __attribute__((tls_model("initial-exec")));

void shim_meet_thread(void)
{
	make_room();
	// The first call of a thread makes it known to Go, which unblocks some signals meanwhile, such as SIGPROF, and
	// leaves them so.
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	goroce_busy++;
	core->started();
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	shim_thread_known = true;
	goroce_left(0);
}

EXPORT void goroce_meet(void) { shim_meet(); }
