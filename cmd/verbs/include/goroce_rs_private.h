/* What librdmacm.so.1 exports for librspreload.so of the same build, in version node GOROCE_1. */
#ifndef GOROCE_RS_PRIVATE_H
#define GOROCE_RS_PRIVATE_H

/* goroce_rs_is reports whether a descriptor is an rsocket. */
int goroce_rs_is(int fd);

/* goroce_rs_release ends an rsocket, as rclose, but leaves its descriptor open. */
void goroce_rs_release(int fd);

/* goroce_rs_mirror makes the descriptor of an rsocket one for epoll: 0, or -1 with errno. */
int goroce_rs_mirror(int fd);

/* goroce_rs_exit is _exit, when what follows sockets that were closed has arrived. */
__attribute__((noreturn)) void goroce_rs_exit(int status);

#endif
