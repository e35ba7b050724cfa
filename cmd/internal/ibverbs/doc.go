// Package ibverbs has the subcommands of cmd/roce that stand in for the example programs of
// libibverbs, as rdma-core has them.
//
// devinfo opens a device and prints what it is and can do, in the shape of ibv_devinfo.
//
// rc_pingpong, uc_pingpong, ud_pingpong and srq_pingpong are ibv_rc_pingpong and so on, either side
// of which may be the original. The two sides tell each other QP number, first PSN and GID over
// TCP, and then SEND a message back and forth. The server connects its QP before it answers the
// client, and the client starts once it has the answer, so that no first message finds a QP that is
// not ready.
package ibverbs
