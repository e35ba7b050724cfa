#include <stdint.h>

/* The callers take turns. goroce_aio_open returns an errno; the other two come after it has returned 0. */
int goroce_aio_open(void);
/* goroce_aio_poll has event, an eventfd, counted when fd can be read. name is not 0. It returns an errno. */
int goroce_aio_poll(int fd, int event, uint64_t name);
/* goroce_aio_next returns the name of one that was counted, or is about to be; 0 if there is none. */
uint64_t goroce_aio_next(void);
