// Package suites runs test suites that nobody of this project wrote, from their unmodified sources,
// on this project's libibverbs and librdmacm.
//
// # Parts
//
// A Suite is a source package of Debian in one version, how it is built, and how its tests are run
// and read. Prepare fetches and builds it, in a folder below the cache; nothing of it is committed.
// A Site is where tests run: two network namespaces with a link between them, and what programs
// there find: this project's libraries ("goroce"), or no RDMA device at all ("nothing"), which
// tells what a test's success says about a device.
//
// A Result is what became of one test. Known says why a test fails that is known to; it is read
// from known.txt, and a line of it that no failure needs any more is an error, as is a failure
// without a line. Results are kept in results.txt, and WriteTable makes SUITES.md of them.
//
// # What counts
//
// A test passes if the suite says so. One that ends the process has failed, and the others go on in
// another process. Nothing is tried again, but for what Repeat asks for.
package suites
