// Package cache is a key-value cache whose clients read entries straight out of the server's
// memory. A GET is an RDMA READ: the server's program does not run for it.
//
// # Who writes what into whose memory
//
// The server has a table of slots in memory that clients may read. Nobody but the server writes
// to it; clients ask for that by messages (PUT, DELETE).
//
//	client                                   server
//	GET   READ of 4 slots  ───────────────>  table (its adapter answers)
//	PUT   message          ───────────────>  program writes a slot, then answers
//
// A key has two homes of four slots, which its hash says, and is in the first that had a free slot:
// one READ of four slots finds nearly all keys, and a second one shows that a key is not there. A
// slot has a version, the entry, and a checksum of all of it. A READ that meets a PUT may get some
// of the old entry and some of the new one (a torn read): the checksum is wrong then, and the
// client reads again.
//
// # Memory that grows, and is given back
//
// When both homes of a key are full the server makes a table of twice the size and marks every slot
// of the old one as moved. A client that reads a moved slot asks by message where the table is.
// When all clients have asked, the old table's memory region is closed and its memory is free. A
// client that has not asked for a second loses its key with that: its next READ is refused, which
// ends its connection, and it connects again. So does a client of a server that was started again.
// A GET may be done again, since it changes nothing. A PUT whose connection breaks is told with an
// error that matches [roce.ErrMaybeDone], as the client cannot know whether it is in the table.
package cache
