// One count of an eventfd when a file can be read next: IOCB_CMD_POLL of Linux AIO. So who waits for the eventfd, by whatever means, waits for the
// file, too, and sees a count for it.
#include "aio.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUESTS 64
#define MAGIC 0xa10a10a1

/* What the kernel maps; programs may move the head. */
static struct {
	uint32_t id, size, head, tail, magic, compat, incompat, header;
	struct io_event events[];
} *ring;

int goroce_aio_open(void)
{
	aio_context_t c = 0;
	if (ring)
		return 0;
	if (syscall(SYS_io_setup, REQUESTS, &c))
		return errno;
	ring = (void *)c;
	if (ring->magic == MAGIC && !ring->incompat && ring->header == sizeof *ring)
		return 0;
	syscall(SYS_io_destroy, c);
	ring = NULL;
	return ENOSYS;
}

int goroce_aio_poll(int fd, int event, uint64_t name)
{
	struct iocb b = {
		.aio_data = name,
		.aio_fildes = fd,
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_buf = POLLIN,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = event,
	}, *p = &b;
	return syscall(SYS_io_submit, (aio_context_t)ring, 1, &p) == 1 ? 0 : errno;
}

uint64_t goroce_aio_next(void)
{
	uint32_t head = ring->head;
	if (head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
		return 0;
	uint64_t name = ring->events[head].data;
	__atomic_store_n(&ring->head, (head + 1) % ring->size, __ATOMIC_RELEASE);
	return name;
}
