/* Two programs on TCP sockets, which know nothing of RDMA, send each other 8 MiB, one thread and poll(2) each. Each says its end when it has written all,
 * and reads to the end of the other. An end that comes while there is more to write than the buffers take ends one direction only.
 * With "rdma" the sockets are rsockets: then a process that ends at once has no kernel that sends for it, which its peer must see. */
#include "../programs/check.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>

#define LENGTH (8 << 20) /* twice of what a socket takes without a reader */
#define PIECE 16384

enum way { TOGETHER, LATE, LATE_EXIT, CUT, WAYS };
static const char *names[WAYS] = {"together", "one reads when it has written", "so, and the other ends without close", "one ends at once"};

static char data[2][LENGTH]; /* of the server, of the client */

static void fill(void)
{
	uint64_t x = 1;
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < LENGTH; i++) {
			x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
			data[side][i] = (char)(x >> 56);
		}
}

struct stream {
	int fd;
	const char *out, *in; /* what is written, and what is to come */
	size_t written, got;
	bool said, ended;
};

static void put(struct stream *s)
{
	size_t left = LENGTH - s->written;
	ssize_t n = send(s->fd, s->out + s->written, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
	if (n < 0 && errno == EAGAIN)
		return;
	CHECK(n > 0);
	s->written += (size_t)n;
	if (s->written == LENGTH) {
		OK(shutdown(s->fd, SHUT_WR));
		s->said = true;
	}
}

static void get(struct stream *s)
{
	char b[PIECE];
	ssize_t n = recv(s->fd, b, sizeof b, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	CHECK(n >= 0 && s->got + (size_t)n <= LENGTH);
	OK(memcmp(b, s->in + s->got, (size_t)n));
	s->got += (size_t)n;
	if (n == 0) {
		CHECK(s->got == LENGTH);
		s->ended = true;
	}
}

/* move goes on until both directions are over; late does not read before it has written all. */
static void move(struct stream *s, bool late)
{
	OK(fcntl(s->fd, F_SETFL, O_NONBLOCK));
	while (!s->said || !s->ended) {
		bool reads = !s->ended && (s->said || !late);
		struct pollfd p = {.fd = s->fd, .events = (short)((reads ? POLLIN : 0) | (s->said ? 0 : POLLOUT))};
		CHECK(poll(&p, 1, -1) == 1);
		CHECK(!(p.revents & (POLLERR | POLLNVAL)));
		if (p.revents & POLLOUT)
			put(s);
		if (reads && p.revents & (POLLIN | POLLHUP))
			get(s);
	}
}

static void server(enum way how, int port)
{
	struct sockaddr_in at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(l >= 0);
	OK(bind(l, SA(at), sizeof at));
	OK(getsockname(l, SA(at), &len));
	OK(listen(l, 1));
	CHECK(write(port, &at.sin_port, sizeof at.sin_port) == sizeof at.sin_port);
	struct stream s = {.fd = accept(l, NULL, NULL), .out = data[0], .in = data[1]};
	CHECK(s.fd >= 0);
	if (how == CUT) {
		OK(fcntl(s.fd, F_SETFL, O_NONBLOCK));
		while (send(s.fd, s.out, PIECE, MSG_NOSIGNAL) > 0)
			;
		CHECK(errno == EAGAIN);
		_exit(0);
	}
	move(&s, false);
	if (how != LATE_EXIT)
		OK(close(s.fd));
	exit(0);
}

static void client(enum way how, pid_t peer, int port, bool rdma)
{
	struct sockaddr_in to = addr("127.0.0.1", 0);
	struct stream s = {.fd = socket(AF_INET, SOCK_STREAM, 0), .out = data[1], .in = data[0]};
	int status;
	CHECK(s.fd >= 0);
	CHECK(read(port, &to.sin_port, sizeof to.sin_port) == sizeof to.sin_port);
	OK(connect(s.fd, SA(to), sizeof to));
	if (rdma)
		FAILS(dup(s.fd), ENOTSUP); /* it is an rsocket */
	if (how != CUT) {
		move(&s, how != TOGETHER);
		OK(close(s.fd));
	}
	CHECK(waitpid(peer, &status, 0) == peer);
	CHECK(status == 0);
	if (how == CUT) {
		static char b[1 << 16];
		ssize_t n;
		while ((n = recv(s.fd, b, sizeof b, 0)) > 0)
			;
		CHECK(n == -1 && errno == ECONNRESET); /* and not the end of the data */
		close(s.fd);			       /* how it ends is known */
	}
	exit(0);
}

int main(int argc, char **argv)
{
	bool rdma = argc > 1 && !strcmp(argv[1], "rdma");
	fill();
	for (enum way how = 0; how < (rdma ? WAYS : CUT); how++) {
		int status;
		pid_t other = fork();
		if (!other) {
			int port[2];
			OK(pipe(port));
			if (!(other = fork()))
				server(how, port[1]);
			client(how, other, port[0], rdma);
		}
		CHECK(waitpid(other, &status, 0) == other);
		if (status) {
			fprintf(stderr, "%s: %x\n", names[how], (unsigned int)status);
			return 1;
		}
	}
	return 0;
}
