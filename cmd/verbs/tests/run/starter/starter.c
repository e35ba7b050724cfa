/* Becomes a program, or starts it, by the call that is named: starter CALL PROGRAM. Without arguments it ends well. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 0;
	const char *how = argv[1], *name = argv[2];
	char *args[] = {argv[2], "a", NULL};
	pid_t pid;
	int status;
	if (!strcmp(how, "execve"))
		execve(name, args, environ);
	if (!strcmp(how, "execv"))
		execv(name, args);
	if (!strcmp(how, "execl"))
		execl(name, name, "a", (char *)NULL);
	if (!strcmp(how, "execle"))
		execle(name, name, "a", (char *)NULL, environ);
	if (!strcmp(how, "fexecve"))
		fexecve(open(name, O_RDONLY), args, environ);
	if (!strcmp(how, "execvp"))
		execvp(name, args);
	if (!strcmp(how, "execvpe"))
		execvpe(name, args, environ);
	if (!strcmp(how, "execlp"))
		execlp(name, name, "a", (char *)NULL);
	if (!strcmp(how, "posix_spawn") && posix_spawn(&pid, name, NULL, NULL, args, environ))
		return 2;
	if (!strcmp(how, "posix_spawnp") && posix_spawnp(&pid, name, NULL, NULL, args, environ))
		return 2;
	if (strncmp(how, "posix", 5))
		return 3; /* no call returns */
	return waitpid(pid, &status, 0) != pid || status;
}
