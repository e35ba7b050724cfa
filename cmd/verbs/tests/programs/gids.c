// The table of GIDs has empty places behind the GIDs that there are: a look at one is no error, as with rdma-core, and
// ibv_query_gid_ex tells it apart.
#include "check.h"

int main(void)
{
	struct ibv_context *c = open_device(0);
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(c, 1, &port));
	struct ibv_gid_entry table[256];
	CHECK(port.gid_tbl_len <= 256);
	ssize_t n = ibv_query_gid_table(c, table, (size_t)port.gid_tbl_len, 0);
	CHECK(n > 0 && n < port.gid_tbl_len, "%zd of %d", n, port.gid_tbl_len);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		static const union ibv_gid none;
		struct ibv_gid_entry e;
		union ibv_gid gid;
		memset(&gid, 7, sizeof gid);
		CHECK(!ibv_query_gid(c, 1, i, &gid));
		if (i < n) {
			CHECK(!memcmp(&gid, &table[i].gid, sizeof gid) && memcmp(&gid, &none, sizeof gid));
			CHECK(!ibv_query_gid_ex(c, 1, (uint32_t)i, &e, 0) && !memcmp(&e.gid, &gid, sizeof gid));
		} else {
			CHECK(!memcmp(&gid, &none, sizeof gid));
			FAILS_INT(ENODATA, ibv_query_gid_ex(c, 1, (uint32_t)i, &e, 0));
		}
	}
	CHECK(!ibv_close_device(c));
	return 0;
}
