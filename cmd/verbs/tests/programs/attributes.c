// What programs look for in the attributes of a device before they use something.
#include "check.h"

int main(void)
{
	struct ibv_context *c = open_device(0);
	struct ibv_device_attr d;
	struct ibv_device_attr_ex x;
	FAILS_INT(0, ibv_query_device(c, &d));
	FAILS_INT(0, ibv_query_device_ex(c, NULL, &x));
	// UCX has atomics of 64 bits only with exactly this, and no others.
	CHECK(d.atomic_cap == IBV_ATOMIC_HCA && x.orig_attr.atomic_cap == IBV_ATOMIC_HCA);
	CHECK(!x.pci_atomic_caps.fetch_add && !x.pci_atomic_caps.swap && !x.pci_atomic_caps.compare_swap);
	FAILS_INT(0, ibv_close_device(c));
	return 0;
}
