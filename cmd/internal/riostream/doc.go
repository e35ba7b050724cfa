// Package riostream is the subcommand riostream: as rstream, but transfers are
// RDMA WRITEs straight into memory that the other side has mapped, as riostream
// of librdmacm makes them. The receiver watches the last byte.
package riostream
