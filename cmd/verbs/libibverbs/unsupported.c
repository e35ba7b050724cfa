// The operations of verbs_context that this device does not have. They are left NULL: the inline functions of
// verbs.h answer EOPNOTSUPP then.
#include "shim.h"

void shim_unsupported(struct verbs_context *v) { (void)v; }
