// Package wire is "roce wire": a cable between two interfaces that loses, delays, marks and damages
// chosen RoCE packets, to see what cards and programs make of it. The rules are those of package
// lab/ether, the cable that of package switchlink.
package wire
