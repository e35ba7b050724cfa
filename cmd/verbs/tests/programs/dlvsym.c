// libibverbs loaded by hand, as NCCL does it: by dlopen and dlvsym, closed, and loaded again.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

static void *sym(void *h, const char *name, const char *version)
{
	void *p = dlvsym(h, name, version);
	if (!p)
		fprintf(stderr, "%s\n", dlerror()), _exit(1);
	return p;
}
#define SYM(h, name, version) ((__typeof__(&name))sym(h, #name, version))

int main(void)
{
	for (int i = 0; i < 3; i++) {
		// The second name is that of development packages, which some look for first: what they have must not be found.
		void *h = dlopen(i == 1 ? "libibverbs.so" : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!h)
			return fprintf(stderr, "%s\n", dlerror()), 1;
		int n;
		struct ibv_device **list = SYM(h, ibv_get_device_list, "IBVERBS_1.1")(&n);
		struct ibv_context *c = n == 2 ? SYM(h, ibv_open_device, "IBVERBS_1.1")(list[1]) : NULL;
		if (!c)
			return fprintf(stderr, "not opened, of %d\n", n), 1;
		struct ibv_pd *pd = SYM(h, ibv_alloc_pd, "IBVERBS_1.1")(c);
		char buf[64];
		struct ibv_mr *mr = SYM(h, ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, buf, sizeof buf, 0, IBV_ACCESS_RELAXED_ORDERING);
		if (!mr || SYM(h, ibv_dereg_mr, "IBVERBS_1.1")(mr) || SYM(h, ibv_dealloc_pd, "IBVERBS_1.1")(pd) ||
		    SYM(h, ibv_close_device, "IBVERBS_1.1")(c))
			return fprintf(stderr, "does not work\n"), 1;
		sym(h, "ibv_query_ece", "IBVERBS_1.10");
		sym(h, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
		if (dlvsym(h, "ibv_query_ece", "IBVERBS_1.1"))
			return fprintf(stderr, "in the wrong version\n"), 1;
		SYM(h, ibv_free_device_list, "IBVERBS_1.1")(list);
		dlclose(h);
	}
	return 0;
}
