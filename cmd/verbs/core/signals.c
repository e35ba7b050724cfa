/*
 * The runtime of Go calls sigaction of C where there is cgo. libibverbs.so.1 has one for the program, which keeps what the program
 * asks for apart from what Go does. So this stands before both in this library, and is libc's.
 */
#define _GNU_SOURCE
#include <signal.h>

extern int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

__attribute__((visibility("hidden"))) int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return __sigaction(sig, act, old);
}
