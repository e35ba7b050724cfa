// The files of /sys/class/infiniband that programs read through libibverbs.
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *env = getenv("SYSFS_PATH");
	return env && *env ? env : "/sys";
}

// device_at returns the device whose directory a path is.
static struct shim_device *device_at(const char *dir)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct shim_device *found = NULL;
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(list[i]->ibdev_path, dir) || !strcmp(list[i]->dev_path, dir))
			found = to_device(list[i]);
	ibv_free_device_list(list);
	return found;
}

static void guid_text(char *text, size_t size, uint64_t guid)
{
	snprintf(text, size, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48) & 0xffff, (unsigned)(guid >> 32) & 0xffff,
		 (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
}

// content writes what a file of a device says; false if there is no such file.
static bool content(const struct shim_device *d, const char *file, char *text, size_t size)
{
	static const struct {
		const char *file, *text;
	} fixed[] = {
		{"node_type", "1: CA"},
		{"fw_ver", "goroce"},
		{"ports/1/link_layer", "Ethernet"},
		{"ports/1/pkeys/0", "0xffff"},
		{"ports/1/lid", "0x0"},
		{"ports/1/sm_lid", "0x0"},
		{"abi_version", "1"},
	};
	if (!strcmp(file, "node_guid") || !strcmp(file, "sys_image_guid")) {
		guid_text(text, size, d->guid);
		return true;
	}
	if (!strcmp(file, "node_desc")) {
		snprintf(text, size, "%s", d->device.name);
		return true;
	}
	unsigned int index;
	if (sscanf(file, "ports/1/gid_attrs/types/%u%c", &index, &(char){0}) == 1 && index < GOROCE_GIDS) {
		snprintf(text, size, "RoCE v2");
		return true;
	}
	if (!strcmp(file, "ibdev")) {
		snprintf(text, size, "%s", d->device.name);
		return true;
	}
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		if (!strcmp(fixed[i].file, file)) {
			snprintf(text, size, "%s", fixed[i].text);
			return true;
		}
	return false;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char text[128], path[1024];
	ssize_t n;
	if (!size) {
		errno = EINVAL;
		return -1;
	}
	struct shim_device *d = device_at(dir);
	if (d) {
		if (!content(d, file, text, sizeof text)) {
			errno = ENOENT;
			return -1;
		}
		n = (ssize_t)strlen(text);
		if ((size_t)n >= size)
			n = (ssize_t)size - 1;
		memcpy(buf, text, (size_t)n);
	} else {
		if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
			errno = ENAMETOOLONG;
			return -1;
		}
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -1;
		n = read(fd, buf, size - 1);
		close(fd);
		if (n < 0)
			return -1;
		if (n > 0 && buf[n - 1] == '\n')
			n--;
	}
	buf[n] = 0;
	return (int)n;
}
