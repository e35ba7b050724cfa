/*
 * What programs and scripts find below /sys/class/infiniband. A process that looks there first gets files of its own, in a folder for
 * temporary files, and removes them when it ends or becomes another program. One that is killed cannot: it holds a lock on the folder
 * as long as it lives, so the next "roce run" sees that nobody uses it, and removes it. GOROCE_SYSFS says what devices there are: for each
 * its GID and the interface, as "0000:...:0001/eth0", with commas between them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../include/goroce_gids.h"
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char made[PATH_MAX]; // the folder; empty: there is none
static pid_t maker;	    // the process that it belongs to: the child of a fork makes its own

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static int drop(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s, (void)kind, (void)at;
	return remove(path) && errno != ENOENT;
}

void leave_sysfs(void)
{
	if (maker != getpid()) // also in the child of a vfork, which has the memory of its parent
		return;
	pthread_mutex_lock(&lock);
	if (*made)
		nftw(made, drop, 8, FTW_DEPTH | FTW_PHYS);
	*made = 0;
	pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void at_exit(void) { leave_sysfs(); }

// put writes a file of one line below a folder, and the folders on the way to it.
static bool put(int dir, const char *path, const char *text)
{
	char name[200];
	if (strlen(path) >= sizeof name)
		return false;
	for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
		memcpy(name, path, (size_t)(s - path));
		name[s - path] = 0;
		if (mkdirat(dir, name, 0755) && errno != EEXIST)
			return false;
	}
	int fd = (int)syscall(SYS_openat, dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (fd < 0)
		return false;
	bool ok = dprintf(fd, "%s\n", text) > 0;
	return !close(fd) && ok;
}

// describe writes the files of a device.
static bool describe(int dir, int number, const char *gid, const char *iface)
{
	char node[32], path[200];
	snprintf(node, sizeof node, "goroce%d", number);
	const char *const files[][2] = {
		{"node_type", "1: CA"}, {"node_desc", node}, {"fw_ver", "goroce"},
		{"ports/1/state", "4: ACTIVE"}, {"ports/1/phys_state", "5: LinkUp"}, {"ports/1/link_layer", "Ethernet"},
		{"ports/1/lid", "0x0"}, {"ports/1/sm_lid", "0x0"}, {"ports/1/pkeys/0", "0xffff"},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "infiniband/%s/%s", node, files[i][0]);
		if (!put(dir, path, files[i][1]))
			return false;
	}
	const char *const of_gid[][2] = {{"gids", gid}, {"gid_attrs/types", "RoCE v2"}, {"gid_attrs/ndevs", iface}};
	for (int i = 0; i < 3 * GOROCE_GIDS; i++) {
		snprintf(path, sizeof path, "infiniband/%s/ports/1/%s/%d", node, of_gid[i % 3][0], i / 3);
		if (*of_gid[i % 3][1] && !put(dir, path, of_gid[i % 3][1])) // an address may be of no interface
			return false;
	}
	snprintf(path, sizeof path, "infiniband_verbs/uverbs%d/ibdev", number);
	if (!put(dir, path, node))
		return false;
	snprintf(path, sizeof path, "infiniband_verbs/uverbs%d/abi_version", number);
	return put(dir, path, "1");
}

// fill writes the files of all devices.
static bool fill(int dir, const char *devices)
{
	if (!put(dir, "infiniband_verbs/abi_version", "6"))
		return false;
	for (int number = 0; *devices; number++) {
		char one[120];
		size_t n = strcspn(devices, ",");
		if (n >= sizeof one)
			return false;
		memcpy(one, devices, n);
		one[n] = 0;
		devices += n + (devices[n] == ',');
		char *iface = strchr(one, '/');
		if (!iface)
			return false;
		*iface++ = 0;
		if (!describe(dir, number, one, iface))
			return false;
	}
	return true;
}

// make makes the folder, with a lock on it. The descriptor is out of the way of those that programs count on.
static void make(const char *devices)
{
	const char *tmp = getenv("TMPDIR");
	maker = getpid();
	if (snprintf(made, sizeof made, "%s/goroce-sys-XXXXXX", tmp && *tmp ? tmp : "/tmp") < (int)sizeof made && mkdtemp(made)) {
		int low = (int)syscall(SYS_openat, AT_FDCWD, made, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir = fcntl(low, F_DUPFD_CLOEXEC, 200);
		if (dir < 0)
			dir = low;
		else
			close(low);
		if (dir >= 0 && !flock(dir, LOCK_EX | LOCK_NB) && !fchmod(dir, 0755) && fill(dir, devices))
			return;
		if (dir >= 0)
			close(dir);
		nftw(made, drop, 8, FTW_DEPTH | FTW_PHYS);
	}
	*made = 0;
}

bool in_sysfs(const char *path, char room[PATH_MAX])
{
	static const char class[] = "/sys/class/", start[] = "infiniband";
	if (strncmp(path, class, sizeof class - 1))
		return false;
	path += sizeof class - 1;
	if (strncmp(path, start, sizeof start - 1))
		return false;
	const char *rest = path + sizeof start - 1;
	if (!strncmp(rest, "_verbs", 6))
		rest += 6;
	if (*rest && *rest != '/')
		return false;
	const char *devices = getenv("GOROCE_SYSFS");
	if (!devices || !*devices)
		return false;
	int saved = errno;
	pthread_mutex_lock(&lock);
	// Again where it has gone: of a program that closes all descriptors the next one does not know that it lives, and between mkdtemp
	// and the lock it may have been taken for one that was left behind.
	for (int i = 0; i < 3 && (maker != getpid() || !*made || syscall(SYS_faccessat, AT_FDCWD, made, F_OK)); i++)
		make(devices);
	bool ok = *made && strlen(made) + 1 + strlen(path) < PATH_MAX;
	if (ok)
		strcpy(stpcpy(stpcpy(room, made), "/"), path);
	pthread_mutex_unlock(&lock);
	errno = saved;
	return ok;
}
