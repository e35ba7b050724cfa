// Package getopt parses command lines the way GNU getopt_long does, because the tools of cmd/roce
// stand in for C programs that use it: grouped short options (-aF), values joined to their option
// (-n1000, --iters=1000) or in the next argument, unambiguous abbreviations of long options,
// operands anywhere, and "--" to end the options.
//
// The options are data: a table of Option, from which the help text is printed
// too, so that what is accepted and what is documented cannot differ.
package getopt
