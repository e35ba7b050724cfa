/* A program on TCP sockets, which knows nothing of RDMA. With an argument it connects to that port, where a program
   listens that has no RDMA. */
#include "../programs/check.h"
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void *client(void *port)
{
	struct sockaddr_in a = addr("127.0.0.1", (int)(intptr_t)port), me = addr("127.0.0.2", 0);
	char b[100];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	OK(bind(fd, SA(me), sizeof me));
	OK(connect(fd, SA(a), sizeof a));
	CHECK(recv(fd, b, 5, MSG_WAITALL) == 5 && !memcmp(b, "hello", 5));
	FILE *f = tmpfile();
	CHECK(f && fputs("a file", f) >= 0 && !fflush(f));
	off_t at = 2;
	CHECK(sendfile(fd, fileno(f), &at, 4) == 4 && at == 6);
	OK(close(fd));
	return NULL;
}

static void *nothing(void *arg) { return arg; }

/* small_thread makes one with the least stack, as Node does: what libraries have for each thread has to fit in it. */
static void small_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;
	OK(pthread_attr_init(&attr));
	OK(pthread_attr_setstacksize(&attr, 16384));
	OK(pthread_create(&t, &attr, nothing, NULL));
	OK(pthread_join(t, NULL));
}

/* by_number is what libuv does. */
static void by_number(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), v;
	socklen_t len = sizeof v;
	OK((int)syscall(SYS_close, fd));
	FAILS(getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len), EBADF);
	FAILS((int)syscall(SYS_io_uring_setup, 1, NULL), ENOSYS); /* the kernel knows nothing of rsockets */
	FILE *f = tmpfile();
	CHECK(f && !fseek(f, 65536, SEEK_SET) && fputs("here", f) >= 0 && !fflush(f));
	char *p = (char *)syscall(SYS_mmap, NULL, 4, PROT_READ, MAP_PRIVATE, fileno(f), 65536);
	CHECK(p != MAP_FAILED && !memcmp(p, "here", 4));
}

static void rdma(void)
{
	small_thread();
	by_number();
	struct sockaddr_in a = addr("127.0.0.1", 0);
	socklen_t len = sizeof a;
	struct stat st;
	struct epoll_event ev = {.events = EPOLLIN};
	char b[100];
	int n, one = 1, l = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0);
	CHECK(l >= 0 && ep >= 0);
	FAILS(dup(l), ENOTSUP); /* it is an rsocket */
	socklen_t n_len = sizeof n; /* what Python asks of a descriptor */
	OK(getsockopt(l, SOL_SOCKET, SO_PROTOCOL, &n, &n_len));
	CHECK(n == IPPROTO_TCP);
	OK(getsockopt(l, SOL_SOCKET, SO_DOMAIN, &n, &n_len));
	CHECK(n == AF_INET);
	OK(epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev));
	OK(fstat(l, &st));
	CHECK(S_ISSOCK(st.st_mode));
	OK(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	OK(setsockopt(l, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
	OK(bind(l, SA(a), sizeof a));
	OK(listen(l, 5));
	OK(getsockname(l, SA(a), &len));
	OK(fcntl(l, F_SETFL, O_NONBLOCK));
	FAILS(accept(l, NULL, NULL), EAGAIN);
	pthread_t t;
	OK(pthread_create(&t, NULL, client, (void *)(intptr_t)ntohs(a.sin_port)));
	struct pollfd p = {.fd = l, .events = POLLIN};
	CHECK(poll(&p, 1, -1) == 1);
	int fd = accept4(l, SA(a), &len, SOCK_CLOEXEC);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && !(fcntl(fd, F_GETFL) & O_NONBLOCK));
	FAILS(dup(fd), ENOTSUP);
	/* TCP ignores the address of one that is connected. */
	struct iovec v = {"llo", 3};
	struct msghdr m = {.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = &v, .msg_iovlen = 1};
	CHECK(sendto(fd, "he", 2, 0, SA(a), sizeof a) == 2 && sendmsg(fd, &m, 0) == 3);
	fd_set rd;
	FD_ZERO(&rd);
	FD_SET(fd, &rd);
	CHECK(select(fd + 1, &rd, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &rd));
	OK(ioctl(fd, FIONREAD, &n));
	CHECK(n == 4 || n == 0); /* 0: the end came with it */
	CHECK(recv(fd, b, sizeof b, 0) == 4 && !memcmp(b, "file", 4));
	CHECK(read(fd, b, 1) == 0);
	OK(pthread_join(t, NULL));
	OK(close(fd));
	FAILS(read(fd, b, 1), EBADF);
	OK(close(l));
	OK(close(ep));
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		rdma();
		return 0;
	}
	struct sockaddr_in a = addr("127.0.0.1", atoi(argv[1]));
	char b[8];
	int v = 0, one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof v;
	OK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
	OK(connect(fd, SA(a), sizeof a));
	CHECK(read(fd, b, sizeof b) == 3 && !memcmp(b, "tcp", 3));
	OK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &len));
	CHECK(v != 0);
	int other = dup(fd); /* it is a TCP socket now */
	CHECK(other >= 0);
	OK(close(other));
	OK(close(fd));
	return 0;
}
