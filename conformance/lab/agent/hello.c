/* Who may talk to us: protocol version, token, one client at a time. */
#include "verbsd.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define MAX_SESSIONS 64
#define MAX_NAME 64

/* What the processes of all connections share. A child writes its own slot only, and the parent
 * clears it when the child has ended, however that was. */
static struct slot {
	_Atomic pid_t pid;	/* 0: free */
	_Atomic bool in;	/* the client has been let in */
	unsigned long began;	/* how many connections there had been before */
	char client[MAX_NAME + 1];
} *slots;

static struct slot *mine;
const char *agent_token = "";

void clients_init(void)
{
	slots = mmap(NULL, MAX_SESSIONS * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		_Exit(1);
}

static void clear(struct slot *s)
{
	s->in = false;
	memset(s->client, 0, sizeof s->client);
	s->pid = 0;
}

/* A connection that has not said hello makes room for a new one, the oldest first: a client says hello at
 * once, and what says nothing keeps no client out. */
int client_slot(void)
{
	int oldest = -1;
	for (int i = 0; i < MAX_SESSIONS; i++) {
		if (slots[i].pid == 0)
			return i;
		if (!slots[i].in && (oldest < 0 || slots[i].began < slots[oldest].began))
			oldest = i;
	}
	if (oldest < 0)
		return -1;
	kill(slots[oldest].pid, SIGKILL);
	while (waitpid(slots[oldest].pid, NULL, 0) < 0 && errno == EINTR)
		;
	clear(&slots[oldest]);
	return oldest;
}

void client_started(int slot, pid_t pid)
{
	static unsigned long connections;
	slots[slot].began = connections++;
	slots[slot].pid = pid;
}

void client_is(int slot) { mine = &slots[slot]; }

bool greeted(void) { return mine->in; }

void clients_reap(void)
{
	for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
		for (int i = 0; i < MAX_SESSIONS; i++)
			if (slots[i].pid == pid)
				clear(&slots[i]);
}

/* Takes as long for a wrong word as for a right one. */
static bool same(const char *got, const char *want)
{
	size_t n = strlen(want), k = strlen(got);
	unsigned char diff = n != k;
	for (size_t i = 0; i < n; i++)
		diff |= want[i] ^ got[k ? i % k : 0];
	return diff == 0;
}

void cmd_hello(void)
{
	if (greeted())
		fail(EINVAL, "a second hello");
	if (need_num("version") != PROTOCOL)
		fail(EPROTO, "this agent speaks version %d of the protocol", PROTOCOL);
	const char *token = arg("token"), *client = arg("client");
	if (!same(token ? token : "", agent_token))
		fail(EACCES, "the token is wrong");
	if (!client)
		client = "";
	if (strlen(client) > MAX_NAME)
		fail(EINVAL, "a client's name has at most %d characters", MAX_NAME);
	strcpy(mine->client, client);
	mine->in = true;
	/* Of two that come at the same moment each sees the other: then neither goes on. */
	for (int i = 0; i < MAX_SESSIONS; i++)
		if (slots[i].in && strcmp(slots[i].client, client)) {
			mine->in = false;
			fail(EBUSY, "another client is at work");
		}
	struct utsname u;
	out(" version=%d agent=verbsd", PROTOCOL);
	if (uname(&u) == 0)
		out(" kernel=%s", u.release);
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n; i++)
		out(" device=%s", ibv_get_device_name(list[i]));
	if (list)
		ibv_free_device_list(list);
}
