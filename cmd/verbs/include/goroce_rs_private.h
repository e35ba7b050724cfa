/* What librdmacm.so.1 exports for librspreload.so of the same build, in version node GOROCE_1. */
#ifndef GOROCE_RS_PRIVATE_H
#define GOROCE_RS_PRIVATE_H

#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

/* goroce_rs_is reports whether a descriptor is an rsocket. */
int goroce_rs_is(int fd);

/* goroce_rs_plain makes an rsocket for datagrams also speak UDP, with peers that know nothing of rsockets. */
void goroce_rs_plain(int fd);

/* goroce_rs_release ends an rsocket, as rclose, but leaves its descriptor open. */
void goroce_rs_release(int fd);

/* goroce_rs_mirror makes the descriptor of an rsocket one for epoll, that is to be put into a set: 0, or -1 with errno. */
int goroce_rs_mirror(int fd, int set);

/* goroce_rs_has reports whether an rsocket was put into a set of epoll, by its number, in this process. */
int goroce_rs_has(int set);

/* goroce_rs_epoll is epoll_pwait2 for such a set. EBUSY: another thread waits for it in this way, and libc's epoll_pwait2 does. */
int goroce_rs_epoll(int set, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask);

/* goroce_rs_exit is _exit, when what follows sockets that were closed has arrived. */
__attribute__((noreturn)) void goroce_rs_exit(int status);

#endif
