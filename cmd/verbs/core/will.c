/*
 * Starting the helper that outlives the process. The program must not notice: so it is not a child of the program, which might wait
 * for it, and its start makes no SIGCHLD. The process in between is not seen by wait (__WCLONE); it shares the memory as with
 * vfork, or the page tables of a large program would be copied. So nothing here may go through functions that a sanitizer has in place of
 * libc's: ThreadSanitizer would take what a child does in its memory for what the program has done, and end it.
 */
#define _GNU_SOURCE
#include "will.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (32 << 10)
#define MOST_FILES (64 << 10) /* that a program may have left open for its children */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int __clone(int (*f)(void *), void *stack, int flags, void *arg, ...);
static void leave(int status) { syscall(SYS_exit_group, status); }

struct start {
	const char *path;
	int file;
	char *stack; /* of the helper until it is executed */
	char of[16]; /* the process, for ps */
	volatile int error;
};

int __close(int fd); /* of glibc */

/* helper becomes the program. */
static int helper(void *arg)
{
	struct start *s = arg;
	char *argv[] = {"goroce_will", s->of, NULL}, *env[] = {NULL};
	setsid();
	if (syscall(SYS_dup3, s->file, 0, 0) < 0) {
		s->error = errno;
		leave(1);
	}
	if (syscall(SYS_close_range, 1U, ~0U, 0U)) /* Linux before 5.9 */
		for (int fd = 1; fd < MOST_FILES; fd++)
			__close(fd); /* librspreload has the others, for rsockets */
	syscall(SYS_execve, s->path, argv, env);
	s->error = errno;
	leave(1);
	return 1;
}

/* between has the helper as its child, and ends. */
static int between(void *arg)
{
	struct start *s = arg;
	if (__clone(helper, s->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, s) < 0)
		s->error = errno;
	leave(0);
	return 0;
}

/* adopts reports whether orphans become children of this process. */
static int adopts(void)
{
	int reaper = 0;
	return getpid() == 1 || prctl(PR_GET_CHILD_SUBREAPER, &reaper) || reaper;
}

int will_start(const char *path, int file)
{
	struct start s = {.path = path, .file = file};
	if (adopts())
		return ECHILD;
	if (file == 0) /* the program has closed its own: dup2 would leave O_CLOEXEC */
		return EBADF;
	char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return errno;
	s.stack = stacks;
	snprintf(s.of, sizeof s.of, "%d", (int)getpid());
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* no handler of the program runs in its memory, and the helper inherits it */
	pid_t pid = __clone(between, stacks + 2 * STACK, CLONE_VM | CLONE_VFORK, &s);
	if (pid < 0)
		s.error = errno;
	else
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stacks, 2 * STACK);
	return s.error;
}
