/*
 * What a shell or a wrapper script starts. "roce run" looks at the program that it becomes, and not at those that this one runs: if one of them
 * gets more rights than its caller has, the loader ignores LD_LIBRARY_PATH without a word, and the program finds no device. So that is said
 * before it runs, if it is a program on our libraries. Nothing here allocates memory: it may be the child of a vfork.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sysfs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static __typeof__(&execve) next_execve;
static __typeof__(&execvpe) next_execvpe;
static __typeof__(&fexecve) next_fexecve;
static __typeof__(&posix_spawn) next_spawn, next_spawnp;

// Looked for at the start, since dlsym may wait for a thread that the child of a fork does not have.
__attribute__((constructor)) static void find_next(void)
{
	if (next_execve)
		return; // a library that came before has called us
	next_execve = (__typeof__(&execve))dlsym(RTLD_NEXT, "execve");
	next_execvpe = (__typeof__(&execvpe))dlsym(RTLD_NEXT, "execvpe");
	next_fexecve = (__typeof__(&fexecve))dlsym(RTLD_NEXT, "fexecve");
	next_spawn = (__typeof__(&posix_spawn))dlsym(RTLD_NEXT, "posix_spawn");
	next_spawnp = (__typeof__(&posix_spawn))dlsym(RTLD_NEXT, "posix_spawnp");
}

// uses_verbs reports whether a program names one of our libraries.
static bool uses_verbs(int fd, size_t size)
{
	static const char verbs[] = "libibverbs.so.1", cm[] = "librdmacm.so.1";
	void *m = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (m == MAP_FAILED)
		return false;
	bool found = memmem(m, size, verbs, sizeof verbs) || memmem(m, size, cm, sizeof cm);
	munmap(m, size);
	return found;
}

// privilege returns what gives a program more rights than its caller has; NULL if nothing does.
static const char *privilege(int fd, const struct stat *st)
{
	if (st->st_mode & S_ISUID && st->st_uid != getuid())
		return "is set-user-ID";
	if (st->st_mode & S_ISGID && st->st_mode & S_IXGRP && st->st_gid != getgid())
		return "is set-group-ID";
	if (getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

static void look(const char *path)
{
	find_next();
	int saved = errno;
	// Not the open of files.c, which answers for devices.
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		const char *why = privilege(fd, &st);
		if (why && uses_verbs(fd, (size_t)st.st_size)) {
			char line[PATH_MAX + 200];
			int n = snprintf(line, sizeof line, "goroce: %s %s, for which the loader ignores LD_LIBRARY_PATH: run a copy of it without (cp does that)\n", path, why);
			if (n > 0 && (size_t)n < sizeof line && write(STDERR_FILENO, line, (size_t)n) < 0)
				errno = saved;
		}
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
}

// look_in_path looks at the file that execvp finds.
static void look_in_path(const char *name)
{
	const char *path = getenv("PATH");
	find_next();
	if (!name || !*name)
		return;
	if (strchr(name, '/') || !path) {
		look(name);
		return;
	}
	for (;;) {
		char file[PATH_MAX];
		size_t n = strcspn(path, ":");
		if (snprintf(file, sizeof file, "%.*s%s%s", (int)n, path, n ? "/" : "", name) < (int)sizeof file &&
		    !syscall(SYS_faccessat, AT_FDCWD, file, X_OK)) {
			look(file);
			return;
		}
		if (!path[n])
			return;
		path += n + 1;
	}
}

EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	look(path);
	leave_sysfs();
	return next_execve(path, argv, env);
}

EXPORT int execv(const char *path, char *const argv[])
{
	look(path);
	leave_sysfs();
	return next_execve(path, argv, environ);
}

EXPORT int execvpe(const char *name, char *const argv[], char *const env[])
{
	look_in_path(name);
	leave_sysfs();
	return next_execvpe(name, argv, env);
}

EXPORT int execvp(const char *name, char *const argv[])
{
	look_in_path(name);
	leave_sysfs();
	return next_execvpe(name, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	look(path);
	leave_sysfs();
	return next_fexecve(fd, argv, env);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *s, char *const argv[], char *const env[])
{
	look(path);
	return next_spawn(pid, path, a, s, argv, env);
}

EXPORT int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *a, const posix_spawnattr_t *s, char *const argv[], char *const env[])
{
	look_in_path(name);
	return next_spawnp(pid, name, a, s, argv, env);
}

// The arguments of execl and its kin, as an array on the stack.
#define COLLECT(first, argv) \
	va_list args; \
	size_t n_ = 1; \
	va_start(args, first); \
	while (va_arg(args, char *)) \
		n_++; \
	va_end(args); \
	char *argv[n_ + 1]; \
	argv[0] = (char *)first; \
	va_start(args, first); \
	for (size_t i_ = 1; i_ <= n_; i_++) \
		argv[i_] = va_arg(args, char *)

EXPORT int execl(const char *path, const char *first, ...)
{
	COLLECT(first, argv);
	va_end(args);
	return execv(path, argv);
}

EXPORT int execlp(const char *name, const char *first, ...)
{
	COLLECT(first, argv);
	va_end(args);
	return execvp(name, argv);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	COLLECT(first, argv);
	char *const *env = va_arg(args, char *const *);
	va_end(args);
	return execve(path, argv, env);
}
