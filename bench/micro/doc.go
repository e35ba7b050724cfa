// Package micro is the table of micro-behaviours, after Lumina (SIGCOMM 2023): how long goroce, on
// each of its links, and the kernel's rdma_rxe take to react to a gap, to a NAK, to a loss that
// nobody reports, to a mark of congestion; and what their counters say of it. It makes a page and
// charts of what the group "micro" of package matrix has measured.
//
// # What is whose
//
// A row of that group has two sides: one asks, the other one answers. Each of its numbers is about
// one of them, and the table puts it into that one's column: metrics says which. A column has the
// samples of all rows in which the implementation had that side, whatever the other one was.
//
// # Concurrency
//
// A Data is not changed by making a page of it.
package micro
