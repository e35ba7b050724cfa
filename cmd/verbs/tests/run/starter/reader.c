// reader opens a path by the call that it is told, and prints what is there.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const char *how = argv[1], *path = argv[2];
	char text[100], real[PATH_MAX];
	struct stat st;
	FILE *f = NULL;
	int fd = -1;
	if (!strcmp(how, "cleaner") && !access(path, R_OK)) {
		closefrom(3);
		if (system("rm -r \"$TMPDIR\"/*"))
			return 1;
		fd = open(path, O_RDONLY);
	} else if (!strcmp(how, "kill") && !access(path, R_OK)) {
		raise(SIGKILL);
	} else if (!strcmp(how, "exec") && !access(path, R_OK)) {
		execl(argv[0], argv[0], "open", path, NULL);
	} else if (!strcmp(how, "fork") && !access(path, R_OK)) {
		pid_t child = fork();
		if (child)
			waitpid(child, NULL, 0);
		fd = open(path, O_RDONLY);
	}
	if (!strcmp(how, "opendir")) {
		DIR *d = opendir(path);
		for (struct dirent *e; d && (e = readdir(d));)
			if (*e->d_name != '.')
				puts(e->d_name);
		if (d)
			return 0;
	} else if (!strcmp(how, "stat") && !stat(path, &st)) {
		return puts(S_ISDIR(st.st_mode) ? "a folder" : "a file") < 0;
	} else if (!strcmp(how, "access") && !access(path, R_OK)) {
		return puts("there") < 0;
	} else if (!strcmp(how, "realpath") && realpath(path, real)) {
		return puts(real) < 0;
	} else if (!strcmp(how, "fopen")) {
		f = fopen(path, "r");
	} else if (!strcmp(how, "openat")) {
		fd = openat(AT_FDCWD, path, O_RDONLY);
	} else if (!strcmp(how, "open")) {
		fd = open(path, O_RDONLY);
	}
	if (fd >= 0)
		f = fdopen(fd, "r");
	if (f && fgets(text, sizeof text, f))
		return fputs(text, stdout) < 0;
	puts(strerror(errno));
	return 0;
}
