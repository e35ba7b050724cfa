/* A handler of signals that notes on what stack it runs. */
#include <signal.h>
#include <stdbool.h>

static volatile bool ran, apart;
static void handler(int sig)
{
	(void)sig;
	stack_t now;
	ran = true;
	apart = !sigaltstack(NULL, &now) && now.ss_flags & SS_ONSTACK;
}
