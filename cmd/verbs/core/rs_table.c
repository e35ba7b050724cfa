// The table of functions for rsockets. The compiler compares the exported Go functions with the contract here.
#include "../include/goroce_rs.h"
#include "_cgo_export.h"

struct goroce_rs_behind goroce_rs_behind;

// The exported functions have no const.
#define F(name) .name = (void *)goroce_rs_##name
static const struct goroce_rs table = {
	.version = GOROCE_RS_VERSION,
	.size = sizeof(struct goroce_rs),
	F(create), F(bind), F(listen), F(accept), F(connect), F(connected), F(recv), F(recv_wait), F(send), F(thread), F(poll),
	F(shutdown), F(close), F(name), F(set_option), F(vector), F(path_mtu), F(iomap), F(iounmap), F(iowrite), F(recv_from), F(send_to), F(mirror),
	F(member), F(epoll),
	.behind = &goroce_rs_behind,
};

const struct goroce_rs *goroce_rs_table(void) { return &table; }
