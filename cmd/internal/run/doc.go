// Package run is "roce run": it runs an RDMA program of somebody else's on this project's
// libibverbs and librdmacm.
//
// It looks whether that can work, sets the environment, and becomes the program: there is no
// process between, so that signals and the exit status are the program's own. What cannot work is
// refused in one line, because the dynamic loader would quietly take other libraries, or none.
package run
