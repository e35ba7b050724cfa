// Options of rsockets.
#include "rs.h"
#include "../include/goroce_rs_private.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

static int set(struct rs *s, int option, int64_t value) { return RS(set_option, atomic_load(&s->handle), option, value); }

// keep sets an option and remembers it.
static int keep(struct rs *s, int option, int64_t value, int *field)
{
	int e = set(s, option, value);
	if (!e)
		*field = (int)value;
	return e;
}

// doubled is what librdmacm makes of a size that a program asks for, as the kernel does for sockets.
static int64_t doubled(int v)
{
	const int64_t most = 1 << 30;
	int64_t d = 2 * (int64_t)(uint32_t)v;
	return d > most ? most : d;
}

static int64_t at_most(int v, int64_t most) { return (uint32_t)v > most ? most : v; }

// keepalive sets the time between probes: that of TCP_KEEPIDLE, or none.
static int keepalive(struct rs *s) { return set(s, GOROCE_RS_KEEPALIVE, s->keepalive ? s->keepidle : 0); }

// reuse sets one of the two bits that let a socket share its address. Of streams no two listen at one address all the same.
static int reuse(struct rs *s, int bit, int v) { return keep(s, GOROCE_RS_REUSE, v ? s->reuse | bit : s->reuse & ~bit, &s->reuse); }

static int set_socket(struct rs *s, int name, int v)
{
	int e;
	switch (name) {
	case SO_REUSEADDR:
		return reuse(s, 1, v);
	case SO_REUSEPORT:
		return reuse(s, 2, v);
	case SO_SNDBUF:
		e = keep(s, GOROCE_RS_SNDBUF, doubled(v), &s->sndbuf);
		return e == EINVAL ? 0 : e; // too late, which is no error
	case SO_RCVBUF:
		e = keep(s, GOROCE_RS_RCVBUF, doubled(v), &s->rcvbuf);
		return e == EINVAL ? 0 : e;
	case SO_LINGER:
		s->linger_off = !v;
		return 0;
	case SO_KEEPALIVE:
		s->keepalive = !!v;
		return keepalive(s);
	case SO_OOBINLINE:
		s->oobinline = !!v;
		return 0;
	case SO_BROADCAST: // there is none to send to
		return s->type == SOCK_DGRAM ? 0 : ENOTSUP;
	}
	return ENOTSUP;
}

// advice returns where an option of TCP is kept that changes no result of a call, but only when packets leave, when a connection
// is accepted, or when one without an answer ends; NULL for other options. Here all leaves at once, and the adapter's retries end a
// connection.
static int *advice(struct rs *s, int name)
{
	switch (name) {
	case TCP_CORK: return &s->advice[0];
	case TCP_QUICKACK: return &s->advice[1];
	case TCP_DEFER_ACCEPT: return &s->advice[2];
	case TCP_FASTOPEN: return &s->advice[3];
	case TCP_USER_TIMEOUT: return &s->advice[4];
	}
	return NULL;
}

static int set_tcp(struct rs *s, int name, int v)
{
	int *advised = advice(s, name);
	if (advised) {
		if (v < 0)
			return EINVAL;
		*advised = v;
		return 0;
	}
	switch (name) {
	case TCP_NODELAY:
		s->nodelay = !!v; // as it is in any case
		return 0;
	case TCP_KEEPIDLE:
		if (v <= 0)
			return EINVAL;
		s->keepidle = v;
		return s->keepalive ? keepalive(s) : 0;
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
		return 0; // the connection is reliable by itself
	}
	return ENOTSUP;
}

static int set_rdma(struct rs *s, int name, int v)
{
	const int64_t most = 0xfffe;
	switch (name) {
	case RDMA_SQSIZE:
		return keep(s, GOROCE_RS_SQSIZE, at_most(v, most), &s->sq_size);
	case RDMA_RQSIZE:
		return keep(s, GOROCE_RS_RQSIZE, at_most(v, most), &s->rq_size);
	case RDMA_INLINE:
		s->inline_bytes = (int)at_most(v, most);
		return 0;
	case RDMA_IOMAPSIZE:
		return keep(s, GOROCE_RS_IOMAPS, at_most(v, 0x7f00), &s->iomaps);
	}
	return ENOTSUP;
}

EXPORT void goroce_rs_plain(int fd)
{
	struct rs *s = rs_of(fd);
	if (s)
		keep(s, GOROCE_RS_PLAIN, 1, &s->plain);
}

// timeout_of returns the milliseconds that a timeout of SO_RCVTIMEO has been set by, or is to be; NULL for other options.
static int *timeout_of(struct rs *s, int level, int name)
{
	if (level != SOL_SOCKET || (name != SO_RCVTIMEO && name != SO_SNDTIMEO))
		return NULL;
	return name == SO_RCVTIMEO ? &s->rcv_ms : &s->snd_ms;
}

static int set_timeout(int *ms, const void *value, socklen_t len)
{
	struct timeval t;
	if (len < sizeof t)
		return EINVAL;
	memcpy(&t, value, sizeof t);
	if (t.tv_usec < 0 || t.tv_usec >= 1000000)
		return EDOM;
	if (t.tv_sec < 0) {
		*ms = 1; // what the kernel makes of it
		return 0;
	}
	int64_t v = t.tv_sec > INT32_MAX / 1000 - 1 ? INT32_MAX : t.tv_sec * INT64_C(1000) + (t.tv_usec + 999) / 1000;
	*ms = (int)v;
	return 0;
}

EXPORT int rsetsockopt(int socket, int level, int name, const void *value, socklen_t len)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	if (!value)
		return cm_result(EFAULT);
	int *timeout = timeout_of(s, level, name);
	if (timeout)
		return cm_result(set_timeout(timeout, value, len));
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return 0;
	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return cm_result(ENOTSUP); // there are no paths to choose from
	int v = 0;
	if (level == IPPROTO_IP && name == IP_TOS && len == 1)
		v = *(const uint8_t *)value;
	else if (len < sizeof v)
		return cm_result(EINVAL);
	else
		memcpy(&v, value, sizeof v); // of struct linger it is whether there is one
	switch (level) {
	case SOL_SOCKET:
		return cm_result(set_socket(s, name, v));
	case IPPROTO_IP:
		return cm_result(name == IP_TOS ? keep(s, GOROCE_RS_TOS, v & 0xff, &s->tos) : ENOTSUP);
	case IPPROTO_IPV6:
		if (name == IPV6_TCLASS) // -1 is the default; libzmq sets it for IPv4, too, and counts on this error
			return cm_result(s->domain == AF_INET6 ? keep(s, GOROCE_RS_TOS, v < 0 ? 0 : v & 0xff, &s->tos) : ENOPROTOOPT);
		return cm_result(name == IPV6_V6ONLY ? keep(s, GOROCE_RS_V6ONLY, !!v, &s->v6only) : ENOTSUP);
	case IPPROTO_TCP:
		return cm_result(set_tcp(s, name, v));
	case SOL_RDMA:
		return cm_result(set_rdma(s, name, v));
	}
	return cm_result(ENOTSUP);
}

// give writes a value for the program.
static int give(const void *from, size_t n, void *to, socklen_t *len)
{
	if (*len < n)
		return EINVAL;
	memcpy(to, from, n);
	*len = (socklen_t)n;
	return 0;
}

// take_error returns why connecting has failed, once.
static int take_error(struct rs *s)
{
	goroce_handle h = atomic_load(&s->handle);
	struct goroce_rs_item now = {.socket = h};
	if (s->type == SOCK_DGRAM || RS(poll, &now, 1, 0, GOROCE_RS_LOOK) < 0 || !(now.revents & POLLERR))
		return 0;
	int e = RS(connected, h);
	return e == EINPROGRESS || e == ENOTCONN ? 0 : e;
}

static int max_segment(struct rs *s)
{
	uint32_t mtu;
	return RS(path_mtu, atomic_load(&s->handle), &mtu) || !mtu ? 2048 : (int)mtu;
}

static int get_int(struct rs *s, int level, int name, int *v)
{
	switch (level) {
	case SOL_SOCKET:
		switch (name) {
		case SO_REUSEADDR: *v = s->reuse & 1; return 0;
		case SO_REUSEPORT: *v = s->reuse >> 1; return 0;
		case SO_KEEPALIVE: *v = s->keepalive; return 0;
		case SO_OOBINLINE: *v = s->oobinline; return 0;
		case SO_SNDBUF: *v = s->sndbuf; return 0;
		case SO_RCVBUF: *v = s->rcvbuf; return 0;
		case SO_ERROR: *v = take_error(s); return 0;
		case SO_TYPE: *v = s->type; return 0;
		case SO_DOMAIN: *v = s->domain; return 0;
		case SO_PROTOCOL: *v = s->type == SOCK_DGRAM ? IPPROTO_UDP : IPPROTO_TCP; return 0;
		case SO_BROADCAST: *v = 0; return 0;
		}
		break;
	case IPPROTO_IP:
		if (name == IP_TOS) {
			*v = s->tos;
			return 0;
		}
		break;
	case IPPROTO_IPV6:
		if (name == IPV6_V6ONLY) {
			*v = s->v6only;
			return 0;
		}
		if (name == IPV6_TCLASS) {
			*v = s->tos;
			return s->domain == AF_INET6 ? 0 : ENOPROTOOPT;
		}
		break;
	case IPPROTO_TCP:
		if (advice(s, name)) {
			*v = *advice(s, name);
			return 0;
		}
		switch (name) {
		case TCP_KEEPCNT:
		case TCP_KEEPINTVL:
		case TCP_CONGESTION: *v = 1; return 0;
		case TCP_KEEPIDLE: *v = s->keepidle; return 0;
		case TCP_NODELAY: *v = s->nodelay; return 0;
		case TCP_MAXSEG: *v = max_segment(s); return 0;
		}
		break;
	case SOL_RDMA:
		switch (name) {
		case RDMA_SQSIZE: *v = s->sq_size; return 0;
		case RDMA_RQSIZE: *v = s->rq_size; return 0;
		case RDMA_INLINE: *v = s->inline_bytes; return 0;
		case RDMA_IOMAPSIZE: *v = s->iomaps; return 0;
		}
		break;
	}
	return ENOTSUP;
}

EXPORT int rgetsockopt(int socket, int level, int name, void *value, socklen_t *len)
{
	struct rs *s = rs_of(socket);
	if (!s)
		return -1;
	if (!value || !len)
		return cm_result(EFAULT);
	int *timeout = timeout_of(s, level, name);
	if (timeout) {
		struct timeval t = {*timeout / 1000, *timeout % 1000 * 1000};
		return cm_result(give(&t, sizeof t, value, len));
	}
	if (level == SOL_SOCKET && name == SO_LINGER) {
		struct linger l = {.l_onoff = !s->linger_off};
		return cm_result(give(&l, sizeof l, value, len));
	}
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		struct sockaddr_storage peer;
		struct tcp_info i = {.tcpi_snd_cwnd = (uint32_t)s->sq_size};
		i.tcpi_state = RS(name, atomic_load(&s->handle), 1, &peer) ? TCP_CLOSE : TCP_ESTABLISHED;
		return cm_result(give(&i, sizeof i, value, len));
	}
	int v, e = get_int(s, level, name, &v);
	return cm_result(e ? e : give(&v, sizeof v, value, len));
}
