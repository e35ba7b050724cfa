// Address handles.
#include "shim.h"

#include <endian.h>

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	ENTER_NULL(pd->context);
	struct shim_ah *x = calloc(1, sizeof *x);
	if (!x)
		return null_errno(ENOMEM);
	struct ibv_ah *ah = &x->ah;
	int e = CORE(create_ah, pd->handle, a, &ah->handle);
	if (e) {
		free(ah);
		return null_errno(e);
	}
	ah->context = pd->context;
	ah->pd = pd;
	x->attr = *a;
	shim_keep(SHIM_AH, &x->link);
	return ah;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	int e = 0;
	if (!shim_of_parent(ah->context)) {
		shim_meet();
		e = set_errno(CORE(destroy_ah, ah->handle));
	}
	if (!e) {
		shim_drop(&((struct shim_ah *)ah)->link);
		free(ah);
	}
	return e;
}

// mapped makes the GID of an IPv4 address.
static void mapped(union ibv_gid *gid, const uint8_t ip[4])
{
	memset(gid, 0, sizeof *gid);
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, ip, 4);
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *a)
{
	memset(a, 0, sizeof *a);
	a->dlid = wc->slid;
	a->src_path_bits = wc->dlid_path_bits;
	a->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	// 40 bytes are an IPv6 header, or 20 of anything and an IPv4 header (IBTA A17.4.5.2).
	const uint8_t *raw = (const uint8_t *)grh, *ip = raw + 20;
	union ibv_gid own;
	a->is_global = 1;
	a->grh.hop_limit = 0xff;
	if (raw[0] >> 4 == 6) {
		uint32_t first = be32toh(grh->version_tclass_flow);
		a->grh.dgid = grh->sgid;
		own = grh->dgid;
		a->grh.flow_label = first & 0xfffff;
		a->grh.traffic_class = (uint8_t)(first >> 20);
	} else if (ip[0] >> 4 == 4) {
		mapped(&a->grh.dgid, ip + 12);
		mapped(&own, ip + 16);
		a->grh.traffic_class = ip[1];
	} else {
		errno = EINVAL;
		return -1;
	}
	bool to_group = own.raw[0] == 0xff || (own.raw[10] == 0xff && own.raw[12] >> 4 == 14);
	if (!to_group && memcmp(to_context(c)->attr.gid, &own, sizeof own)) {
		errno = EINVAL;
		return -1;
	}
	a->grh.sgid_index = 0;
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr a;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &a))
		return NULL;
	return ibv_create_ah(pd, &a);
}

// The Go half resolves neighbours itself, so that the addresses of Ethernet are not needed.
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *a, uint8_t mac[6], uint16_t *vid)
{
	(void)c, (void)a, (void)mac, (void)vid;
	errno = EOPNOTSUPP;
	return -1;
}
