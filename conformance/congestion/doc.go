// Package congestion checks congestion control over real sockets, on every link: two devices
// in network namespaces of their own, and between them the switch of package
// lab/wire, which marks packets as a congested one would.
//
// What happens at which rate is the business of the simulations (package
// bench/simreport) and of the engine's tests, where time is exact. Here it is
// shown that marks and notifications travel through the kernel, that the rate
// falls and rises again, and that every counter says what was on the wire.
package congestion
