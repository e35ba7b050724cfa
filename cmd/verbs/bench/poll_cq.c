// Prints how long ibv_poll_cq takes, in ns, of a queue that is empty: the shortest of several runs.
#include <infiniband/verbs.h>

#include <stdio.h>
#include <time.h>

#define RUNS 7
#define POLLS 1000000

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_cq *cq = c ? ibv_create_cq(c, 256, NULL, NULL, 0) : NULL;
	if (!cq) {
		perror("no completion queue");
		return 1;
	}
	double best = 0;
	for (int i = 0; i < RUNS; i++) {
		struct ibv_wc wc;
		double begin = now();
		for (int n = 0; n < POLLS; n++)
			if (ibv_poll_cq(cq, 1, &wc)) {
				fprintf(stderr, "the queue is not empty\n");
				return 1;
			}
		double ns = (now() - begin) / POLLS;
		if (!i || ns < best)
			best = ns;
	}
	printf("%.2f\n", best);
	return ibv_destroy_cq(cq) || ibv_close_device(c);
}
