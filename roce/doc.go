// Package roce is the public API of goroce: open a Device on a link, make
// protection domains, memory regions, completion queues and queue pairs on it,
// and exchange RDMA operations with any RoCE v2 peer.
package roce
