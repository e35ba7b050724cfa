/*
 * Which sockets of which programs are to be rsockets: the file that rdma-core's library has for that. A line says
 *
 *	program domain type protocol
 *
 * where domain is INET, INET6 or *, type is STREAM, DGRAM or *, protocol is TCP, UDP or *, and program is the beginning of a
 * name, or *. A socket that any line fits is an rsocket. Without the file, or without a line in it, all are.
 * RSPRELOAD_CONFIG names another file, for tests.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define FILE_NAME "/etc/rdma/rsocket/preload_config"

static bool any; /* line was there */
static bool wanted[2][2]; /* IPv6, datagrams: those that a line fits */

/* word reports whether a word of the file stands for a name, with or without what C has in front of it. */
static bool word(const char *w, const char *prefix, const char *name)
{
	size_t n = strlen(prefix);
	if (!strcasecmp(w, "*") || !strcasecmp(w, name))
		return true;
	return !strncasecmp(w, prefix, n) && !strcasecmp(w + n, name);
}

static void line(const char *text)
{
	char program[64], domain[16], type[16], protocol[16];
	if (text[0] == '#' || sscanf(text, "%63s%15s%15s%15s", program, domain, type, protocol) != 4)
		return;
	any = true;
	if (strcmp(program, "*") && strncasecmp(program_invocation_short_name, program, strlen(program)))
		return;
	for (int six = 0; six < 2; six++)
		for (int datagram = 0; datagram < 2; datagram++)
			if ((word(domain, "AF_", six ? "INET6" : "INET") || word(domain, "PF_", six ? "INET6" : "INET")) &&
			    word(type, "SOCK_", datagram ? "DGRAM" : "STREAM") && word(protocol, "IPPROTO_", datagram ? "UDP" : "TCP"))
				wanted[six][datagram] = true;
}

static void load(void)
{
	const char *name = secure_getenv("RSPRELOAD_CONFIG");
	FILE *f = fopen(name ? name : FILE_NAME, "re");
	char text[256];
	if (!f)
		return;
	while (fgets(text, sizeof text, f))
		line(text);
	fclose(f);
}

bool rspreload_wanted(int domain, int type)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int e = errno;
	pthread_once(&once, load);
	errno = e;
	return !any || wanted[domain == AF_INET6][type == SOCK_DGRAM];
}
