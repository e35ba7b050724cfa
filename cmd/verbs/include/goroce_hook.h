/* Between libgoroce_hook.so, which is preloaded, and libibverbs.so.1, which may be loaded later. */
#ifndef GOROCE_HOOK_H
#define GOROCE_HOOK_H

#include <signal.h>

typedef int sigaction_fn(int, const struct sigaction *, struct sigaction *);

/* goroce_hook_join has the calls of sigaction handed to a function instead of libc's. */
void goroce_hook_join(sigaction_fn *to);
typedef void goroce_hook_join_fn(sigaction_fn *to);

#endif
