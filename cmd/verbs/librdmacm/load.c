// Getting at the Go half, which libibverbs has loaded or loads now.
#include "cm.h"

#include <unistd.h>

const struct goroce_cm *cm;
const struct goroce_rs *rs;

static pid_t loaded_in;

static void load_once(void)
{
	goroce_cm_table_fn *cm_table = (goroce_cm_table_fn *)goroce_core_symbol("goroce_cm_table");
	goroce_rs_table_fn *rs_table = (goroce_rs_table_fn *)goroce_core_symbol("goroce_rs_table");
	const struct goroce_cm *c = cm_table ? cm_table() : NULL;
	const struct goroce_rs *r = rs_table ? rs_table() : NULL;
	if (c && c->version == GOROCE_CM_VERSION && c->size == sizeof *c && r && r->version == GOROCE_RS_VERSION &&
	    r->size == sizeof *r) {
		rs = r;
		cm = c;
		loaded_in = getpid();
		return;
	}
	if (!goroce_core_get())
		return; // libibverbs has said why
	static const char line[] =
		"goroce: libgoroce.so is of another version than librdmacm.so.1: install both from one build\n";
	if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
		return;
}

int cm_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (goroce_forked())
		return ENODEV;
	pthread_once(&once, load_once);
	return cm ? 0 : ENODEV;
}

// finish tells the peers that the process ends, as the kernel would. The child of a fork has none.
__attribute__((destructor)) static void finish(void)
{
	const int most_ms = 1000;
	if (cm && getpid() == loaded_in && !goroce_forked())
		cm->finish(most_ms);
}
