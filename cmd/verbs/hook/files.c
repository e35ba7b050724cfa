/*
 * Files that programs look for before they believe that there is an RDMA device. UCX and others want
 * /dev/infiniband/uverbs0 to be a character device that they may open; without a kernel module there is none. Where
 * the file is not there, /dev/null answers in its place. Scripts, and valkey's tests, list /sys/class/infiniband: sysfs.c. All other
 * paths are passed on as they are.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _LARGEFILE64_SOURCE
#include "sysfs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
// NEXT makes next the function that a path is passed on to, and room for another path in its place.
#define NEXT(type, name) \
	char room[PATH_MAX]; \
	static type *next; \
	if (!next) \
		next = (type *)dlsym(RTLD_NEXT, name)

static int has_number(const char *s)
{
	return *s && !s[strspn(s, "0123456789")];
}

// stand_in returns the path to use, which may be in room.
static const char *stand_in(const char *path, char room[PATH_MAX])
{
	static const char dir[] = "/dev/infiniband/";
	if (!path || *path != '/')
		return path;
	if (in_sysfs(path, room))
		return room;
	if (strncmp(path, dir, sizeof dir - 1))
		return path;
	const char *name = path + sizeof dir - 1;
	if (strcmp(name, "rdma_cm") && (strncmp(name, "uverbs", 6) || !has_number(name + 6)))
		return path;
	int saved = errno;
	if (syscall(SYS_faccessat, AT_FDCWD, path, F_OK))
		path = "/dev/null";
	errno = saved;
	return path;
}

typedef int stat_fn(const char *, struct stat *);
typedef int stat64_fn(const char *, struct stat64 *);
EXPORT int stat(const char *path, struct stat *s) { NEXT(stat_fn, "stat"); return next(stand_in(path, room), s); }
EXPORT int stat64(const char *path, struct stat64 *s) { NEXT(stat64_fn, "stat64"); return next(stand_in(path, room), s); }
EXPORT int lstat(const char *path, struct stat *s) { NEXT(stat_fn, "lstat"); return next(stand_in(path, room), s); }
EXPORT int lstat64(const char *path, struct stat64 *s) { NEXT(stat64_fn, "lstat64"); return next(stand_in(path, room), s); }

// What stat was in programs that were built before glibc 2.33.
typedef int xstat_fn(int, const char *, struct stat *);
typedef int xstat64_fn(int, const char *, struct stat64 *);
EXPORT int __xstat(int version, const char *path, struct stat *s);
EXPORT int __xstat(int version, const char *path, struct stat *s)
{
	NEXT(xstat_fn, "__xstat");
	return next(version, stand_in(path, room), s);
}
EXPORT int __xstat64(int version, const char *path, struct stat64 *s);
EXPORT int __xstat64(int version, const char *path, struct stat64 *s)
{
	NEXT(xstat64_fn, "__xstat64");
	return next(version, stand_in(path, room), s);
}

typedef int fstatat_fn(int, const char *, struct stat *, int);
EXPORT int fstatat(int dir, const char *path, struct stat *s, int flags)
{
	NEXT(fstatat_fn, "fstatat");
	return next(dir, stand_in(path, room), s, flags);
}

typedef int statx_fn(int, const char *, int, unsigned int, struct statx *);
EXPORT int statx(int dir, const char *path, int flags, unsigned int mask, struct statx *s)
{
	NEXT(statx_fn, "statx");
	return next(dir, stand_in(path, room), flags, mask, s);
}

typedef int access_fn(const char *, int);
EXPORT int access(const char *path, int mode) { NEXT(access_fn, "access"); return next(stand_in(path, room), mode); }
typedef int faccessat_fn(int, const char *, int, int);
EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	NEXT(faccessat_fn, "faccessat");
	return next(dir, stand_in(path, room), mode, flags);
}

// "ls -l" asks for these of all that it lists.
typedef ssize_t getxattr_fn(const char *, const char *, void *, size_t);
EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	NEXT(getxattr_fn, "getxattr");
	return next(stand_in(path, room), name, value, size);
}
EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	NEXT(getxattr_fn, "lgetxattr");
	return next(stand_in(path, room), name, value, size);
}

typedef int open_fn(const char *, int, ...);
#define OPEN(name) \
	EXPORT int name(const char *path, int flags, ...) \
	{ \
		mode_t mode = 0; \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_list args; \
			va_start(args, flags); \
			mode = va_arg(args, mode_t); \
			va_end(args); \
		} \
		NEXT(open_fn, #name); \
		return next(stand_in(path, room), flags, mode); \
	}
OPEN(open)
OPEN(open64)

typedef int openat_fn(int, const char *, int, ...);
#define OPENAT(name) \
	EXPORT int name(int dir, const char *path, int flags, ...) \
	{ \
		mode_t mode = 0; \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_list args; \
			va_start(args, flags); \
			mode = va_arg(args, mode_t); \
			va_end(args); \
		} \
		NEXT(openat_fn, #name); \
		return next(dir, stand_in(path, room), flags, mode); \
	}
OPENAT(openat)
OPENAT(openat64)

typedef FILE *fopen_fn(const char *, const char *);
EXPORT FILE *fopen(const char *path, const char *mode) { NEXT(fopen_fn, "fopen"); return next(stand_in(path, room), mode); }
EXPORT FILE *fopen64(const char *path, const char *mode) { NEXT(fopen_fn, "fopen64"); return next(stand_in(path, room), mode); }
typedef DIR *opendir_fn(const char *);
EXPORT DIR *opendir(const char *path) { NEXT(opendir_fn, "opendir"); return next(stand_in(path, room)); }

/*
 * A path below /sys/class stays there: what it was made of is not shown, and the other functions find the answer. Programs that look
 * for the PCI device of an adapter ask for "goroce0/../..".
 */
typedef char *realpath_fn(const char *, char *);
EXPORT char *realpath(const char *path, char *resolved)
{
	static const char class[] = "/sys/class";
	char found[PATH_MAX], made[PATH_MAX];
	NEXT(realpath_fn, "realpath");
	const char *at = stand_in(path, room);
	if (!at || at != room)
		return next(at, resolved);
	if (!next(room, found))
		return NULL;
	room[strlen(room) - strlen(path + sizeof class - 1)] = 0;
	if (!next(room, made))
		return NULL;
	size_t n = strlen(made);
	if (!strncmp(found, made, n) && (!found[n] || found[n] == '/')) {
		memmove(found + sizeof class - 1, found + n, strlen(found + n) + 1);
		memcpy(found, class, sizeof class - 1);
	}
	return resolved ? strcpy(resolved, found) : strdup(found);
}
EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }
// What realpath is in programs built with _FORTIFY_SOURCE; glibc's ends one with too little room.
typedef char *realpath_chk_fn(const char *, char *, size_t);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	NEXT(realpath_chk_fn, "__realpath_chk");
	return size < PATH_MAX ? next(stand_in(path, room), resolved, size) : realpath(path, resolved);
}
