#ifndef WILL_H
#define WILL_H

/* will_start starts the program of path with all signals blocked, in a session of its own, and with file as its descriptor 0
   and no other. It is no child of this process: ECHILD if it would be. The result is 0 or an errno. */
int will_start(const char *path, int file);

#endif
