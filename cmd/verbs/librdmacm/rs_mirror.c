// The descriptors of rsockets that are in a set of epoll: the kernel says of them what the Go half would (core/rs_mirror.go).
#include "rs.h"
#include "../include/goroce_rs_private.h"

#include <sys/syscall.h>
#include <unistd.h>

// System calls where librspreload has functions of its own, which would take the descriptor for the socket.
static int close_fd(int fd) { return (int)syscall(SYS_close, fd); }
static int place_over(int from, int to, int flags) { return (int)syscall(SYS_dup3, from, to, flags); }

static int mirror(struct rs *s, int fd)
{
	int pair[2], smallest = 1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		return errno;
	// It is written full when the socket is.
	syscall(SYS_setsockopt, pair[0], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest);
	// Another descriptor of the same file: the number is the program's, which may close it.
	int mine = (int)syscall(SYS_fcntl, pair[0], F_DUPFD_CLOEXEC, 0);
	int e = mine < 0 ? errno : RS(mirror, atomic_load(&s->handle), mine, pair[1]);
	if (!e && place_over(pair[0], fd, s->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		e = errno;
	close_fd(pair[0]);
	// The Go half knows the others from now on, even if the number could not be replaced.
	s->mirror = (struct rs_mirror){mine + 1, pair[1] + 1};
	return e;
}

EXPORT int goroce_rs_mirror(int fd, int set)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	struct rs *s = rs_of(fd);
	if (!s)
		return -1;
	pthread_mutex_lock(&one);
	int e = s->mirror.far ? 0 : mirror(s, fd);
	pthread_mutex_unlock(&one);
	if (!e)
		e = RS(member, atomic_load(&s->handle), set);
	if (!e)
		rs_has_members(set);
	return cm_result(e);
}

struct rs_mirror rs_mirror_take(struct rs *s)
{
	struct rs_mirror m = s->mirror;
	s->mirror = (struct rs_mirror){0, 0};
	return m;
}

void rs_mirror_close(struct rs_mirror m)
{
	if (m.mine)
		close_fd(m.mine - 1);
	if (m.far)
		close_fd(m.far - 1);
}
