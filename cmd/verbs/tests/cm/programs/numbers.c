/* The low numbers of descriptors are the program's, though a device has hundreds of its own. wrk has a table of 10 more than it has
   connections, threefold. */
#include "check.h"
#include <rdma/rsocket.h>

int main(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), other = open("/dev/null", O_RDONLY);
	if (fd < 0 || fd >= 40 || other < 0 || other >= 40) {
		fprintf(stderr, "a socket has the number %d, a file %d\n", fd, other);
		return 1;
	}
	close(other);
	OK(rclose(fd));
	return 0;
}
