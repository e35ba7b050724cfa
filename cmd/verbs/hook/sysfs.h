/* Between the files of the hook. */
#ifndef GOROCE_SYSFS_H
#define GOROCE_SYSFS_H

#include <limits.h>
#include <stdbool.h>

/* in_sysfs writes where the files are that answer for a path below /sys/class/infiniband or infiniband_verbs; false if it is another. */
bool in_sysfs(const char *path, char room[PATH_MAX]);

/* leave_sysfs removes them, if this process has made them. */
void leave_sysfs(void);

#endif
