// repoll: sets of epoll that rsockets can be in, beside any other descriptors. The kernel waits: see rs_mirror.c.
#include "rs.h"
#include "../include/goroce_rs_private.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int repoll_create(int flags);
int repoll_ctl(int set, int op, int fd, struct epoll_event *e);
int repoll_wait(int set, struct epoll_event *events, int most, int timeout);

EXPORT int repoll_create(int flags) { return (int)syscall(SYS_epoll_create1, flags); }

EXPORT int repoll_ctl(int set, int op, int fd, struct epoll_event *e)
{
	if (op == EPOLL_CTL_ADD && goroce_rs_is(fd) && goroce_rs_mirror(fd))
		return -1;
	return (int)syscall(SYS_epoll_ctl, set, op, fd, e);
}

EXPORT int repoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
	return epoll_wait(set, events, most, timeout);
}

bool rs_is_set(int fd)
{
	char path[32], what[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, what, sizeof what - 1);
	what[n > 0 ? n : 0] = 0;
	return !strcmp(what, "anon_inode:[eventpoll]");
}
