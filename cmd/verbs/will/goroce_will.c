/*
 * goroce_will sends the last wills of a process when that has ended: see ../include/goroce_will.h, and will.c of the core, which starts it.
 *
 * Descriptor 0 is the file, and there is no other. All signals are blocked, and the session is its own: Ctrl-C, and a
 * signal to the process group of the program, are not for it. The argument is the process it waits for, for ps.
 */
#include "../include/goroce_will.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROCE_PORT 4791
#define ICRC_BYTES 4
#define HOP_LIMIT 64
#define BURST 64 /* packets that a peer's queue pair 1 takes without a pause */

/* When it is said again, in ms after the time before: packets get lost. */
static const int pauses[] = {0, 40, 160, 400};

static void sleep_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static uint32_t crc(uint32_t r, const uint8_t *b, size_t n)
{
	while (n--) {
		r ^= *b++;
		for (int i = 0; i < 8; i++)
			r = r >> 1 ^ (r & 1 ? 0xEDB88320 : 0);
	}
	return r;
}

static void put16(uint8_t *b, unsigned int v)
{
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

/* put_icrc writes the checksum over the masked headers and the packet (annex A17). */
static void put_icrc(const struct goroce_will *w, int v4, unsigned int port, uint8_t *packet)
{
	const unsigned int udp = 8 + GOROCE_WILL_BYTES + ICRC_BYTES;
	uint8_t h[8 + 40 + 8], *ip = h + 8, *u = ip + (v4 ? 20 : 40);
	memset(h, 0xFF, sizeof h);
	if (v4) {
		ip[0] = 0x45;
		put16(ip + 2, 20 + udp);
		memcpy(ip + 4, "\0\0\x40\0", 4); /* identification 0, DF */
		ip[9] = IPPROTO_UDP;
		memcpy(ip + 12, w->src + 12, 4);
		memcpy(ip + 16, w->dst + 12, 4);
	} else {
		ip[0] = 0x6F;
		put16(ip + 4, udp);
		ip[6] = IPPROTO_UDP;
		memcpy(ip + 8, w->src, 16);
		memcpy(ip + 24, w->dst, 16);
	}
	put16(u, port);
	put16(u + 2, ROCE_PORT);
	put16(u + 4, udp);
	uint32_t r = crc(0xFFFFFFFF, h, (size_t)(u + 8 - h));
	uint8_t resv = 0xFF;
	r = crc(r, packet, 4);
	r = crc(r, &resv, 1);
	r = ~crc(r, packet + 5, GOROCE_WILL_BYTES - 5);
	for (int i = 0; i < ICRC_BYTES; i++)
		packet[GOROCE_WILL_BYTES + i] = (uint8_t)(r >> 8 * i);
}

static int is_v4(const uint8_t *a) { return !memcmp(a, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF", 12); }

/* address makes that of one end. */
static socklen_t address(const struct goroce_will *w, int v4, const uint8_t *a, unsigned int port, struct sockaddr_storage *s)
{
	memset(s, 0, sizeof *s);
	if (v4) {
		struct sockaddr_in *in = (struct sockaddr_in *)s;
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		memcpy(&in->sin_addr, a + 12, 4);
		return sizeof *in;
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)s;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((uint16_t)port);
	memcpy(&in6->sin6_addr, a, 16);
	in6->sin6_scope_id = w->scope;
	return sizeof *in6;
}

/* The socket of the last will: most have one source. */
static int fd = -1;
static unsigned int port; /* of it */
static uint8_t source[16];

/* open_source opens a socket that packets with identification 0 leave by. */
static int open_source(const struct goroce_will *w, int v4)
{
	if (fd >= 0 && !memcmp(source, w->src, sizeof source))
		return 0;
	if (fd >= 0)
		close(fd);
	struct sockaddr_storage s;
	socklen_t len = address(w, v4, w->src, 0, &s);
	const int hops = HOP_LIMIT, discover = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
	memcpy(source, w->src, sizeof source);
	fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
	if (fd < 0)
		return -1;
	int e = v4 ? setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) ||
			     setsockopt(fd, IPPROTO_IP, IP_TTL, &hops, sizeof hops)
		   : setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof discover) ||
			     setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops);
	if (e || bind(fd, (struct sockaddr *)&s, len) || getsockname(fd, (struct sockaddr *)&s, &len)) {
		close(fd);
		fd = -1;
		return -1;
	}
	port = ntohs(v4 ? ((struct sockaddr_in *)&s)->sin_port : ((struct sockaddr_in6 *)&s)->sin6_port);
	return 0;
}

static void send_will(const struct goroce_will *w)
{
	int v4 = is_v4(w->src);
	if (open_source(w, v4))
		return;
	uint8_t packet[GOROCE_WILL_BYTES + ICRC_BYTES];
	memcpy(packet, w->packet, GOROCE_WILL_BYTES);
	put_icrc(w, v4, port, packet);
	struct sockaddr_storage to;
	socklen_t len = address(w, v4, w->dst, ROCE_PORT, &to);
	sendto(fd, packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&to, len); /* it is said again */
}

/* send_all returns how many there are. */
static int send_all(void)
{
	uint32_t used = 0;
	int n = 0;
	if (pread(0, &used, sizeof used, 0) != sizeof used || used > GOROCE_MAX_WILLS)
		return 0;
	for (uint32_t i = 0; i < used; i++) {
		struct goroce_will w;
		off_t at = (off_t)(sizeof(struct goroce_wills) - (GOROCE_MAX_WILLS - i) * sizeof w);
		if (pread(0, &w, sizeof w, at) != sizeof w)
			break;
		if (!w.live)
			continue;
		send_will(&w);
		if (++n % BURST == 0)
			sleep_ms(1);
	}
	return n;
}

int main(void)
{
	if (chdir("/"))
		return 1;
	while (flock(0, LOCK_SH))
		if (errno != EINTR)
			return 1;
	for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
		sleep_ms(pauses[i]);
		if (!send_all())
			break;
	}
	return 0;
}
