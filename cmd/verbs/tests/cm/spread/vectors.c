/*
 * Threads with a connection each wait by themselves for the completion vector of theirs: the sets of epoll in which they sleep have other
 * sockets, and so they receive side by side. Both ends are on one device, whose vectors the connections take in turn.
 */
#include "../programs/echoes.h"
#include <dirent.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define CONNECTIONS 4
#define SETS 64

static struct sockaddr_in at;
static int l;
static int over;

/*
 * set is the set of epoll of a thread that waits: an eventfd, by edge, and, while a shard has lent its seat, what that receives by. The kernel
 * wakes one thread for each packet.
 */
struct set {
	int fd, n, members[16];
};

/* read_set returns false if there are none. */
static bool read_set(int fd, struct set *s)
{
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	FILE *f = fopen(path, "r");
	bool edge = false;
	*s = (struct set){.fd = fd};
	while (f && fgets(line, sizeof line, f)) {
		int member;
		unsigned int events;
		if (sscanf(line, "tfd: %d events: %x", &member, &events) != 2)
			continue;
		edge |= (events & EPOLLET) != 0;
		if (events & EPOLLEXCLUSIVE && s->n < 16)
			s->members[s->n++] = member;
	}
	if (f)
		fclose(f);
	return edge && s->n > 0;
}

static int read_sets(struct set *sets)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fdinfo");
	for (struct dirent *e; d && n < SETS && (e = readdir(d));)
		n += read_set(atoi(e->d_name), &sets[n]);
	if (d)
		closedir(d);
	return n;
}

static bool share(const struct set *a, const struct set *b)
{
	for (int i = 0; i < a->n; i++)
		for (int k = 0; k < b->n; k++)
			if (a->members[i] == b->members[k])
				return true;
	return false;
}

/* apart reports whether two sets have nothing in common, now and when they are read again. */
static bool apart(void)
{
	struct set sets[SETS], a, b;
	int n = read_sets(sets);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			if (!share(&sets[i], &sets[k]) && read_set(sets[i].fd, &a) && read_set(sets[k].fd, &b) && !share(&a, &b))
				return true;
	return false;
}

static pthread_t server[CONNECTIONS];
static void *accepts(void *arg)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = raccept(l, NULL, NULL);
		OK(fd < 0);
		OK(pthread_create(&server[i], NULL, echoes, (void *)(intptr_t)fd));
	}
	return arg;
}

static void *asks(void *socket)
{
	int fd = (int)(intptr_t)socket;
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		char b[64] = "hello";
		CHECK(rsend(fd, b, sizeof b, 0) == sizeof b);
		CHECK(rrecv(fd, b, sizeof b, MSG_WAITALL) == sizeof b);
	}
	OK(rclose(fd));
	return NULL;
}

int main(void)
{
	pthread_t t[CONNECTIONS], accepting;
	at = addr("127.0.0.1", 0);
	socklen_t len = sizeof at;
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	OK(rbind(l, SA(at), sizeof at));
	OK(rlisten(l, CONNECTIONS));
	OK(rgetsockname(l, SA(at), &len));
	OK(pthread_create(&accepting, NULL, accepts, NULL));
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);
		OK(rconnect(fd, SA(at), sizeof at));
		OK(pthread_create(&t[i], NULL, asks, (void *)(intptr_t)fd));
	}
	int looks = 0;
	while (!apart() && ++looks < 5000)
		usleep(1000);
	CHECK(looks < 5000);
	over = 1;
	for (int i = 0; i < CONNECTIONS; i++)
		OK(pthread_join(t[i], NULL));
	OK(pthread_join(accepting, NULL));
	for (int i = 0; i < CONNECTIONS; i++)
		OK(pthread_join(server[i], NULL));
	OK(rclose(l));
	return 0;
}
