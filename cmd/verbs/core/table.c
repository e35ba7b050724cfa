// The table of functions. The compiler compares the exported Go functions with the contract here.
#include "../include/goroce_core.h"
#include "_cgo_export.h"

void goroce_run_on(const cpu_set_t *cpus); // threads.c

static const struct goroce_core table = {
	.version = GOROCE_CORE_VERSION,
	.size = sizeof(struct goroce_core),
#define F(name) .name = goroce_##name
	F(started), F(run_on), F(disown), F(open), F(close), F(query), F(async_next),
	F(alloc_pd), F(dealloc_pd),
	F(reg_mr), F(rereg_mr), F(dereg_mr),
	F(alloc_mw), F(dealloc_mw), F(bind_mw),
	F(create_channel), F(destroy_channel), F(channel_next), F(channel_look),
	F(create_cq), F(destroy_cq), F(resize_cq), F(req_notify_cq), F(progress),
	F(create_qp), F(destroy_qp), F(modify_qp), F(query_qp), F(flush), F(send_room), F(finish),
	F(post_send), F(post_recv), F(attach_mcast), F(detach_mcast),
	F(create_srq), F(destroy_srq), F(modify_srq), F(query_srq), F(post_srq_recv),
	F(create_ah), F(destroy_ah),
#undef F
};

const struct goroce_core *goroce_core_table(void)
{
	goroce_started(); // the first call of a Go function waits for the runtime
	return &table;
}
