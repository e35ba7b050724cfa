// Package cm tests librdmacm.so.1 with programs in C, which are linked with the system's library
// and run with ours. They play both sides themselves, on two addresses. What Debian's programs do
// is in conformance/programs.
package cm
