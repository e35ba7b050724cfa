/* How the process of the program and Go get along: see signals.c. */
#ifndef GOROCE_SIGNALS_H
#define GOROCE_SIGNALS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdbool.h>

/* Around the loading of the Go half, with all signals blocked: function is one of its functions, or NULL if that failed. */
void shim_before_go(void);
void shim_after_go(void *function);

/* shim_check_signals takes care of handlers that the program has installed past this library. */
void shim_check_signals(void);

/* A thread has to be met before its first call of the Go half. */
extern __thread bool shim_thread_known __attribute__((tls_model("initial-exec")));
void shim_meet_thread(void);
static inline void shim_meet(void)
{
	if (__builtin_expect(!shim_thread_known, 0))
		shim_meet_thread();
}

/* Around a fork, and in the child, in which there is no Go. */
void shim_signals_lock(void);
void shim_signals_unlock(void);
void shim_signals_without_go(void);

int shim_sigaction(int sig, const struct sigaction *act, struct sigaction *old);

#endif
