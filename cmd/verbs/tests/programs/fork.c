// Processes that are forked: before a device is opened everything works in the child; afterwards the child may exit, exec
// and run commands, has what its parent has made without a peer, gets ENODEV for connections of its parent, and can open devices of its own, as can
// its children. The parent does not notice.
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static int wait_for(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status), "status %x", status);
	return WEXITSTATUS(status);
}

static void exchange(struct end *a, struct end *b)
{
	post_recv(b, b->qp, 1, 0, 64);
	post_send(a, 2, 64, 64);
	expect_wc(a->cq, 2, IBV_WC_SUCCESS);
	expect_wc(b->cq, 1, IBV_WC_SUCCESS);
}

// child_uses_verbs has the rest, but not the queue pairs that are connected.
static void child_uses_verbs(struct end *a)
{
	struct ibv_wc wc;
	struct ibv_sge s = sge_of(a, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &s, .num_sge = 1}, *bad = NULL;
	struct ibv_recv_wr rwr = {.sg_list = &s, .num_sge = 1}, *rbad = NULL;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	FAILS_INT(ENODEV, ibv_post_send(a->qp, &wr, &bad));
	CHECK(bad == &wr);
	FAILS_INT(ENODEV, ibv_post_recv(a->qp, &rwr, &rbad));
	CHECK(rbad == &rwr);
	FAILS_INT(ENODEV, ibv_modify_qp(a->qp, &attr, IBV_QP_STATE));
	FAILS_INT(ENODEV, ibv_query_qp(a->qp, &attr, 0, &init));
	FAILS_INT(0, ibv_poll_cq(a->cq, 1, &wc));
	struct ibv_pd *pd = ibv_alloc_pd(a->ctx);
	CHECK(pd);
	FAILS_INT(0, ibv_dealloc_pd(pd));
}

static jmp_buf after_fault;
static void on_fault(int sig) { siglongjmp(after_fault, sig); }

// child_opens uses devices of its own, beside those of the parent, which stay out of reach.
__attribute__((noreturn)) static void child_opens(struct end *of_parent, int depth)
{
	struct end a, b;
	child_uses_verbs(of_parent);
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	exchange(&a, &b);
	child_uses_verbs(of_parent);
	// Memory that is gone is contained, and the faults of the program are its own. Its place is kept: another thread might get it.
	void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, gone, 4096, ALL_ACCESS);
	CHECK(mr && !mprotect(gone, 4096, PROT_NONE));
	post_rdma(&a, IBV_WR_RDMA_WRITE, 9, 0, 64, (uintptr_t)gone, mr->rkey);
	CHECK(next_wc(a.cq).status != IBV_WC_SUCCESS);
	CHECK(!ibv_dereg_mr(mr));
	signal(SIGSEGV, on_fault);
	if (!sigsetjmp(after_fault, 1)) {
		*(volatile char *)gone = 1;
		CHECK(!"reached");
	}
	if (depth) {
		pid_t p = fork();
		if (!p)
			child_opens(&a, depth - 1);
		CHECK(wait_for(p) == 7);
	}
	end_close(of_parent); // the child's
	end_close(&a);
	end_close(&b);
	exit(7); // and what runs at exit does not hang
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	pid_t p = fork();
	if (!p) { // with a list that was made before
		struct end a, b;
		pair_open(&a, &b, IBV_QPT_RC, 4096);
		exchange(&a, &b);
		end_close(&a);
		end_close(&b);
		_exit(3);
	}
	CHECK(wait_for(p) == 3);

	struct end a, b;
	pair_open(&a, &b, IBV_QPT_RC, 4096);
	exchange(&a, &b);
	if (!(p = fork()))
		exit(5);
	CHECK(wait_for(p) == 5);
	if (!(p = fork()))
		execl("/bin/sh", "sh", "-c", "exit 6", NULL);
	CHECK(wait_for(p) == 6);
	CHECK(WEXITSTATUS(system("exit 4")) == 4);
	FILE *f = popen("echo hello", "r");
	char line[16] = "";
	CHECK(f && fgets(line, sizeof line, f) && !strcmp(line, "hello\n") && !pclose(f));
	if (!(p = fork()))
		child_opens(&a, 1);
	CHECK(wait_for(p) == 7);
	exchange(&a, &b);
	end_close(&a);
	end_close(&b);
	return 0;
}
