#ifndef GOROCE_RSPRELOAD_CONFIG_H
#define GOROCE_RSPRELOAD_CONFIG_H

#include <stdbool.h>

/* rspreload_wanted reports whether sockets of a domain and a type are to be rsockets in this program. */
bool rspreload_wanted(int domain, int type);

#endif
