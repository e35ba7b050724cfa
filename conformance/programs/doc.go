// Package programs runs RDMA programs as Debian ships them, unmodified, on this project's
// libibverbs and librdmacm.
//
// # Parts
//
// A Stage is where programs run: the packages of a Debian suite, unpacked into a folder that is the
// root of all programs on it, with their own loader and C library (lab.Root), and this project's
// programs mounted into it. A Net is two network namespaces with a link between them; a Place is
// one address of it. Place.Start starts a program there through "roce run".
//
// A Case is what is run: a server and a client, or one program by itself, and what it must print.
// Cases returns the table of all of them: perftest, the pingpongs of libibverbs, librdmacm's
// examples, libfabric, UCX, and pairs of which one side is a tool of this project's own. Pyverbs is
// the test suite of pyverbs, which has a result for each of its tests.
//
// A Report has a row for each case at each place, and writes tables.
//
// # A case passes
//
// if both sides end with status 0, neither prints that data or completions are wrong, and what they
// print has the results that the program is run for. Nothing is tried again. A case of something
// that cannot be (XRC, ODP) passes as refused, if the program says so and ends with a status of its
// own: a signal, or no end, is a failure.
//
// # Concurrency
//
// Cases run side by side, each in namespaces of its own.
package programs
