/* A program that loads the library by dlopen, and installs a handler afterwards: it runs on a stack of its own all the same. */
#include "../programs/check.h"
#include "handler.h"
#include <dlfcn.h>

int main(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(lib);
	void **(*list)(int *) = (void **(*)(int *))dlsym(lib, "ibv_get_device_list");
	void *(*open)(void *) = (void *(*)(void *))dlsym(lib, "ibv_open_device");
	int (*end)(void *) = (int (*)(void *))dlsym(lib, "ibv_close_device");
	CHECK(list && open && end);
	void **devices = list(NULL), *a, *b;
	CHECK(devices && devices[0] && (a = open(devices[0])));
	struct sigaction act = {.sa_handler = handler};
	OK(sigaction(SIGUSR1, &act, NULL));
	CHECK((b = open(devices[0]))); /* it looks what has changed */
	OK(raise(SIGUSR1));
	CHECK(ran && apart);
	OK(end(b));
	OK(end(a));
	return 0;
}
