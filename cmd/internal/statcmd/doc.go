// Package statcmd is "roce stat": what processes that use goroce on this machine do, as far as they
// let it see (package roce/stat): devices, queue pairs, connections, rates and counters.
package statcmd
