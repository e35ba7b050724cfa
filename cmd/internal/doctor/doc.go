// Package doctor is "roce doctor": it says what keeps this machine, or the path to another one,
// from carrying RoCE v2, or from carrying it well.
//
// A check of the machine is a function from a [System], what it may read of one, to findings. It
// reads and never changes anything, except that it opens a device for a moment, which is the only
// proof that one can be opened. What cannot be read is a finding, too: nothing is guessed. Checks
// come in the order of harm: first what no packet survives, last what costs a few percent.
//
// With a host, where "roce doctor --serve" runs, package probe tries the path.
//
// # Exit status
//
// 0: nothing is wrong (there may be notes, and things that could not be read); 1: something does
// not work; 2: the command line is wrong; 3: everything works, something worse than it could.
package doctor
