// The table of functions for librdmacm. The compiler compares the exported Go functions with the contract here.
#include "../include/goroce_cm.h"
#include "_cgo_export.h"

// The exported functions have no const.
#define F(name) .name = (void *)goroce_cm_##name
static const struct goroce_cm table = {
	.version = GOROCE_CM_VERSION,
	.size = sizeof(struct goroce_cm),
	F(add_device), F(create_channel), F(destroy_channel), F(next), F(drained),
	F(ask), F(create_id), F(adopt), F(destroy_id), F(write_event), F(hold), F(migrate_id), F(query_id), F(set_option),
	F(bind_addr), F(resolve_addr), F(resolve_route), F(listen_id),
	F(connect_id), F(accept_id), F(reject), F(notify), F(disconnect), F(qp_attr), F(join), F(leave), F(finish),
};

const struct goroce_cm *goroce_cm_table(void) { return &table; }
