/* Opens all devices, with a queue pair on each, and says so; closes them when it reads a line, and ends when there is no more to read. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) (!(x) ? (perror(#x), exit(1)) : (void)0)

int main(void)
{
	char line[100];
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n > 0 && n < 8);
	struct ibv_context *c[8];
	struct ibv_pd *pd[8];
	struct ibv_cq *cq[8];
	struct ibv_qp *qp[8];
	for (int i = 0; i < n; i++) {
		CHECK(c[i] = ibv_open_device(list[i]));
		CHECK(pd[i] = ibv_alloc_pd(c[i]));
		CHECK(cq[i] = ibv_create_cq(c[i], 4, NULL, NULL, 0));
		struct ibv_qp_init_attr a = {
			.send_cq = cq[i], .recv_cq = cq[i], .qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		};
		CHECK(qp[i] = ibv_create_qp(pd[i], &a));
		printf("%u\n", qp[i]->qp_num);
	}
	puts("open");
	fflush(stdout);
	CHECK(fgets(line, sizeof line, stdin));
	for (int i = 0; i < n; i++) {
		CHECK(!ibv_destroy_qp(qp[i]));
		CHECK(!ibv_destroy_cq(cq[i]));
		CHECK(!ibv_dealloc_pd(pd[i]));
		CHECK(!ibv_close_device(c[i]));
	}
	ibv_free_device_list(list);
	puts("closed");
	fflush(stdout);
	return fgets(line, sizeof line, stdin) != NULL;
}
