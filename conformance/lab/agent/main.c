/* The server: connections, lines, arguments, the table of objects. */
#include "verbsd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_LINE (1 << 18)
#define MAX_ARGS 512
#define MAX_OBJECTS 8192

struct ibv_context *ctx;
const char *dev_name;
int peer_fd;

static jmp_buf abandon;
static char answer[MAX_LINE];
static size_t answer_len;
static char *args[MAX_ARGS];
static int nargs;
static struct object objects[MAX_OBJECTS];

void out(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(answer + answer_len, sizeof answer - answer_len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof answer - answer_len - 1)
		fail(EMSGSIZE, "answer too long");
	answer_len += n;
}

void fail(int err, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (err < 0)
		err = -err;
	answer_len = snprintf(answer, sizeof answer, "err %d %s: %s", err, text, strerror(err));
	longjmp(abandon, 1);
}

const char *arg_nth(const char *key, int n)
{
	size_t k = strlen(key);
	for (int i = 0; i < nargs; i++)
		if (!strncmp(args[i], key, k) && args[i][k] == '=' && n-- == 0)
			return args[i] + k + 1;
	return NULL;
}

const char *arg(const char *key) { return arg_nth(key, 0); }
bool has(const char *key) { return arg(key) != NULL; }

const char *need(const char *key)
{
	const char *v = arg(key);
	if (!v)
		fail(EINVAL, "argument %s is missing", key);
	return v;
}

uint64_t parse_num(const char *s)
{
	char *end;
	errno = 0;
	uint64_t v = strtoull(s, &end, 0);
	if (errno || end == s || *end)
		fail(EINVAL, "%s is not a number", s);
	return v;
}

uint64_t num(const char *key, uint64_t def)
{
	const char *v = arg(key);
	return v ? parse_num(v) : def;
}

uint64_t need_num(const char *key) { return parse_num(need(key)); }

void need_gid(const char *key, union ibv_gid *gid)
{
	const char *v = need(key);
	if (inet_pton(AF_INET6, v, gid->raw) != 1)
		fail(EINVAL, "%s is not a GID", v);
}

int object_new(enum kind kind, void *p)
{
	if (!p)
		fail(errno, "refused");
	for (int i = 1; i < MAX_OBJECTS; i++) {
		if (objects[i].kind != K_FREE)
			continue;
		objects[i] = (struct object){.kind = kind, .p = p};
		return i;
	}
	fail(ENOSPC, "too many objects");
}

struct object *object_get(uint64_t id, enum kind kind)
{
	if (id >= MAX_OBJECTS || objects[id].kind != kind)
		fail(ENOENT, "no such object (%llu, kind %d)", (unsigned long long)id, kind);
	return &objects[id];
}

struct object *need_obj(const char *key, enum kind kind) { return object_get(need_num(key), kind); }

struct object *opt_obj(const char *key, enum kind kind)
{
	return has(key) ? need_obj(key, kind) : NULL;
}

static bool usable(struct ibv_context *c)
{
	struct ibv_port_attr p;
	return !ibv_query_port(c, 1, &p) && p.state == IBV_PORT_ACTIVE && p.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static void open_device(void)
{
	const char *want = arg("dev");
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list)
		fail(errno, "device list");
	for (int i = 0; i < n && !ctx; i++) {
		if (want && strcmp(ibv_get_device_name(list[i]), want))
			continue;
		ctx = ibv_open_device(list[i]);
		if (ctx && !want && !usable(ctx)) {
			ibv_close_device(ctx);
			ctx = NULL;
		}
	}
	ibv_free_device_list(list);
	if (!ctx)
		fail(ENODEV, want ? "device %s" : "no device has an active Ethernet port%s", want ? want : "");
	dev_name = ibv_get_device_name(ctx->device);
	struct ibv_device_attr_ex ex = {0};
	struct ibv_port_attr p;
	int err = ibv_query_device_ex(ctx, NULL, &ex);
	struct ibv_device_attr a = ex.orig_attr;
	if (!err)
		err = ibv_query_port(ctx, 1, &p);
	if (err)
		fail(err, "query");
	out(" dev=%s cap_flags_ex=0x%llx", dev_name, (unsigned long long)ex.device_cap_flags_ex);
	out(" active_mtu=%d state=%d max_qp=%d max_qp_wr=%d max_sge=%d max_cqe=%d max_mr_size=%llu max_qp_rd_atom=%d"
	    " max_qp_init_rd_atom=%d max_srq_wr=%d max_mw=%d cap_flags=0x%x max_msg_sz=%u gid_tbl_len=%d",
	    p.active_mtu, p.state, a.max_qp, a.max_qp_wr, a.max_sge, a.max_cqe, (unsigned long long)a.max_mr_size,
	    a.max_qp_rd_atom, a.max_qp_init_rd_atom, a.max_srq_wr, a.max_mw, a.device_cap_flags, p.max_msg_sz, p.gid_tbl_len);
	for (char *c = a.fw_ver; *c; c++)
		if (*c <= ' ')
			*c = '_';
	if (a.fw_ver[0])
		out(" fw=%s", a.fw_ver);
#ifdef HAVE_FLUSH
	out(" lib_flush=1");
#endif
#ifdef HAVE_ATOMIC_WRITE
	out(" lib_atomic_write=1");
#endif
}

static bool dispatch(const struct command *table, const char *name)
{
	for (; table->name; table++) {
		if (strcmp(table->name, name))
			continue;
		table->run();
		return true;
	}
	return false;
}

static void handle(char *line)
{
	answer_len = 0;
	nargs = 0;
	if (setjmp(abandon))
		return;
	char *save, *name = strtok_r(line, " \t\r\n", &save);
	if (!name)
		fail(EINVAL, "empty request");
	for (char *w; (w = strtok_r(NULL, " \t\r\n", &save));) {
		if (nargs == MAX_ARGS)
			fail(E2BIG, "more than %d arguments", MAX_ARGS);
		args[nargs++] = w;
	}
	out("ok");
	if (!strcmp(name, "hello")) {
		cmd_hello();
		return;
	}
	if (!greeted())
		fail(EPROTO, "a session begins with hello");
	if (!strcmp(name, "open")) {
		if (ctx)
			fail(EBUSY, "already open");
		open_device();
		return;
	}
	if (!ctx)
		fail(ENODEV, "open first");
	if (!dispatch(object_commands, name) && !dispatch(qp_commands, name) && !dispatch(work_commands, name) &&
	    !dispatch(memory_commands, name))
		fail(ENOSYS, "no command %s", name);
}

/* How long a connection may take to say who it is. */
enum { HELLO_SECONDS = 10 };

static void set_timeout(int fd, int seconds)
{
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = seconds}, sizeof(struct timeval));
}

static void serve(int fd)
{
	FILE *in = fdopen(fd, "r");
	FILE *to = fdopen(dup(fd), "w");
	static char line[MAX_LINE];
	if (!in || !to)
		return;
	setvbuf(in, NULL, _IOFBF, 1 << 16);
	bool first = true;
	peer_fd = fd;
	set_timeout(fd, HELLO_SECONDS);
	while (fgets(line, sizeof line, in)) {
		if (!strchr(line, '\n'))
			return; /* longer than a line may be, or cut off */
		handle(line);
		fwrite(answer, 1, answer_len, to);
		fputc('\n', to);
		if (fflush(to) || !greeted())
			return;
		if (first)
			set_timeout(fd, 0);
		first = false;
	}
}

static void usage(const char *why)
{
	fprintf(stderr, "verbsd: %s\nusage: verbsd [-l ADDRESS] [-t TOKEN | -n] [PORT]\n"
		"  -l ADDRESS  listen there only, by default on all IPv4 addresses of this machine\n"
		"  -t TOKEN    what clients have to say; also GOROCE_AGENT_TOKEN in the environment. By default a new one, which is printed\n"
		"  -n          no token: for networks of which nobody else is a part\n"
		"PORT is 18400 by default.\n", why);
	exit(2);
}

static const char *new_token(void)
{
	static char text[33];
	unsigned char b[16];
	FILE *f = fopen("/dev/urandom", "r");
	if (!f || fread(b, 1, sizeof b, f) != sizeof b)
		usage("no random numbers for a token");
	fclose(f);
	for (size_t i = 0; i < sizeof b; i++)
		sprintf(text + 2 * i, "%02x", b[i]);
	return text;
}

static int listen_at(const char *address, const char *port)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	bool six = address && inet_pton(AF_INET6, address, &v6.sin6_addr) == 1;
	int one = 1, l;
	if (atoi(port) <= 0 || atoi(port) > 65535)
		usage("that is no TCP port");
	if (address && !six && inet_pton(AF_INET, address, &v4.sin_addr) != 1)
		usage("-l takes an IP address");
	l = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (l < 0 || bind(l, six ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, six ? sizeof v6 : sizeof v4) || listen(l, 64))
		usage(strerror(errno));
	return l;
}

static void reap(int sig) { (void)sig; /* accept returns, and the loop looks */ }

int main(int argc, char **argv)
{
	const char *address = NULL, *token = getenv("GOROCE_AGENT_TOKEN");
	bool open_to_all = false, made = false;
	for (int c; (c = getopt(argc, argv, "l:t:n")) != -1;) {
		switch (c) {
		case 'l': address = optarg; break;
		case 't': token = optarg; break;
		case 'n': open_to_all = true; break;
		default: usage("unknown option");
		}
	}
	if (argc - optind > 1)
		usage("more than one port");
	const char *port = optind < argc ? argv[optind] : "18400";
	if (token && !*token)
		token = NULL;
	if (token && open_to_all)
		usage("-n and a token exclude each other");
	if (!token && !open_to_all) {
		token = new_token();
		made = true;
	}
	agent_token = token ? token : "";
	int one = 1, l = listen_at(address, port);
	clients_init();
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = reap}, NULL);
	printf("listening on %s port %s\n", address ? address : "all addresses,", port);
	if (made)
		printf("on the other machine: roce conform --agent THIS_MACHINE:%s --token %s\n", port, token);
	fflush(stdout);
	struct pollfd waiting = {.fd = l, .events = POLLIN};
	for (;;) {
		/* A child that ends between the two calls is seen a little later. */
		clients_reap();
		if (poll(&waiting, 1, 200) <= 0)
			continue;
		clients_reap();
		int c = accept(l, NULL, NULL);
		if (c < 0)
			continue;
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		int slot = client_slot();
		if (slot < 0) {
			dprintf(c, "err %d too many sessions\n", EAGAIN);
			close(c);
			continue;
		}
		pid_t pid = fork();
		if (pid == 0) {
			close(l);
			client_is(slot);
			serve(c);
			/* The kernel frees the verbs objects with the file. */
			_exit(0);
		}
		if (pid > 0)
			client_started(slot, pid);
		close(c);
	}
}
