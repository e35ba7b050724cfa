// What a device, its port and its tables are.
#include "shim.h"

#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <time.h>

// The header of rdma-core 44 lacks some of what the interface has.
#define PHYS_DISABLED 3
#define PHYS_LINK_UP 5
#define GID_ROCE_V2 1 // IBV_GID_TYPE_SYSFS_ROCE_V2

// copy_out copies a structure of this library to one that may be of an older or a newer header.
static void copy_out(void *to, size_t to_size, const void *from, size_t size)
{
	if (to_size > size)
		memset((char *)to + size, 0, to_size - size);
	memcpy(to, from, to_size < size ? to_size : size);
}

EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *d)
{
	ENTER_INT(c);
	const struct goroce_attr *a = &to_context(c)->attr;
	memset(d, 0, sizeof *d);
	snprintf(d->fw_ver, sizeof d->fw_ver, "%s", a->fw_ver);
	d->node_guid = d->sys_image_guid = htobe64(a->guid);
	d->max_mr_size = a->max_mr_bytes;
	d->page_size_cap = ~UINT64_C(0xfff);
	d->vendor_id = a->vendor_id;
	d->max_qp = a->max_qp;
	d->max_qp_wr = a->max_qp_wr;
	d->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CHANGE_PHY_PORT |
			      IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
			      IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	d->max_sge = a->max_sge;
	d->max_sge_rd = a->max_sge_rd;
	d->max_cq = a->max_cq;
	d->max_cqe = a->max_cqe;
	d->max_mr = a->max_mr;
	d->max_pd = a->max_pd;
	d->max_qp_rd_atom = a->max_qp_rd_atom;
	d->max_res_rd_atom = (int64_t)a->max_qp_rd_atom * a->max_qp > INT32_MAX ? INT32_MAX : a->max_qp_rd_atom * a->max_qp;
	d->max_qp_init_rd_atom = a->max_qp_init_rd_atom;
	// They are atomic with the processor's, too (IBV_ATOMIC_GLOB), but programs look for exactly what most adapters
	// and rdma_rxe say: UCX does without atomics otherwise.
	d->atomic_cap = a->atomic_cap ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
	d->max_mw = a->max_mw;
	d->max_mcast_grp = 8192;
	d->max_mcast_qp_attach = 56;
	d->max_total_mcast_qp_attach = 8192 * 56;
	d->max_ah = a->max_ah;
	d->max_srq = a->max_srq;
	d->max_srq_wr = a->max_srq_wr;
	d->max_srq_sge = a->max_srq_sge;
	d->max_pkeys = 1;
	d->local_ca_ack_delay = (uint8_t)a->ack_delay;
	d->phys_port_cnt = 1;
	return 0;
}

int shim_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a,
			 size_t size)
{
	if (in && in->comp_mask)
		return EINVAL;
	if (size < offsetof(struct ibv_device_attr_ex, comp_mask) + sizeof a->comp_mask)
		return EINVAL;
	struct ibv_device_attr_ex all = {0};
	int e = ibv_query_device(c, &all.orig_attr);
	if (e)
		return e;
	all.phys_port_cnt_ex = 1;
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	all.hca_core_clock = 0; // no clock in completions
	copy_out(a, size, &all, sizeof all);
	return 0;
}

int shim_query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	(void)c;
	v->comp_mask = 0; // no clock of the device
	return EOPNOTSUPP;
}

// speed_of is what programs expect of a port: 10 Gb/s on 4 lanes, as rdma_rxe says where it does not know.
static void port_attr(const struct goroce_attr *a, struct ibv_port_attr *p)
{
	memset(p, 0, sizeof *p);
	p->state = a->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	p->max_mtu = (enum ibv_mtu)a->max_mtu;
	p->active_mtu = (enum ibv_mtu)a->active_mtu;
	p->gid_tbl_len = GOROCE_GIDS;
	p->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	p->max_msg_sz = a->max_msg;
	p->pkey_tbl_len = 1;
	p->max_vl_num = 1;
	p->active_width = 1;
	p->active_speed = 4;
	p->phys_state = a->active ? PHYS_LINK_UP : PHYS_DISABLED;
	p->link_layer = IBV_LINK_LAYER_ETHERNET;
}

int shim_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *p, size_t size)
{
	ENTER_INT(c);
	if (port != 1)
		return EINVAL;
	struct goroce_attr now;
	int e = CORE(query, to_context(c)->handle, &now);
	if (e)
		return e;
	struct ibv_port_attr all;
	port_attr(&now, &all);
	copy_out(p, size, &all, sizeof all);
	return 0;
}

// The structure of programs that were built before rdma-core 26 ends with link_layer and flags.
#define COMPAT_PORT_ATTR_SIZE offsetof(struct ibv_port_attr, port_cap_flags2)

EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *p)
{
	return shim_query_port(c, port, (struct ibv_port_attr *)p, COMPAT_PORT_ATTR_SIZE);
}

static bool has_place(uint32_t port, uint32_t index) { return port == 1 && index < GOROCE_GIDS; }

EXPORT int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	if (index < 0 || !has_place(port, (uint32_t)index)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(gid, to_context(c)->attr.gid, sizeof *gid);
	return 0;
}

// interface_of returns the index of the network interface of a GID; 0 if it has none.
static uint32_t interface_of(const uint8_t gid[16]);

EXPORT int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	if (flags || !has_place(port, index))
		return flags ? EOPNOTSUPP : EINVAL;
	struct ibv_gid_entry e = {
		.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = interface_of(to_context(c)->attr.gid),
	};
	memcpy(&e.gid, to_context(c)->attr.gid, sizeof e.gid);
	copy_out(entry, size, &e, sizeof e);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
				    size_t size)
{
	if (flags)
		return -EOPNOTSUPP;
	if (max < GOROCE_GIDS)
		return -EINVAL;
	for (size_t i = 0; i < GOROCE_GIDS; i++) {
		int e = _ibv_query_gid_ex(c, 1, (uint32_t)i, (struct ibv_gid_entry *)((char *)entries + i * size), 0, size);
		if (e)
			return -e;
	}
	return GOROCE_GIDS;
}

int ibv_query_gid_type_any(struct ibv_context *c, uint8_t port, unsigned int index, int *type);
EXPORT int ibv_query_gid_type_any(struct ibv_context *c, uint8_t port, unsigned int index, int *type)
{
	(void)c;
	if (!has_place(port, index)) {
		errno = EINVAL;
		return -1;
	}
	*type = GID_ROCE_V2;
	return 0;
}
IN_PRIVATE_NODES(ibv_query_gid_type)

EXPORT int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	(void)c;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	__be16 own;
	if (ibv_query_pkey(c, port, 0, &own))
		return -1;
	if (own != pkey) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

#include <arpa/inet.h>
#include <ifaddrs.h>

static uint32_t interface_of(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool v4 = !memcmp(gid, mapped, sizeof mapped);
	struct ifaddrs *list;
	uint32_t index = 0;
	if (getifaddrs(&list))
		return 0;
	for (struct ifaddrs *i = list; i && !index; i = i->ifa_next) {
		if (!i->ifa_addr)
			continue;
		if (v4 && i->ifa_addr->sa_family == AF_INET) {
			// All of 127.0.0.0/8 is of the loopback interface.
			const struct in_addr *a = &((struct sockaddr_in *)i->ifa_addr)->sin_addr;
			if (!memcmp(a, gid + 12, 4) || (i->ifa_flags & IFF_LOOPBACK && gid[12] == 127))
				index = if_nametoindex(i->ifa_name);
		} else if (!v4 && i->ifa_addr->sa_family == AF_INET6 &&
			   !memcmp(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, gid, 16)) {
			index = if_nametoindex(i->ifa_name);
		}
	}
	freeifaddrs(list);
	return index;
}
