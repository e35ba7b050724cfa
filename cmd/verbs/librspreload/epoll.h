#ifndef GOROCE_RSPRELOAD_EPOLL_H
#define GOROCE_RSPRELOAD_EPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

/* rspreload_epoll_ctl is epoll_ctl for an rsocket. */
int rspreload_epoll_ctl(int set, int op, int fd, struct epoll_event *e);

/* rspreload_epoll_forget is for an rsocket that ends: the kernel takes it out of its sets when nobody has the descriptor any more, as
   the parent of a fork may. */
void rspreload_epoll_forget(int fd);

/* rspreload_epoll_leave takes an rsocket out of all sets, and returns what they were; NULL: none. */
struct member *rspreload_epoll_leave(int fd);

/* rspreload_epoll_join puts the descriptor of that number into them again, or forgets them. */
void rspreload_epoll_join(int fd, struct member *all, bool again);

#endif
