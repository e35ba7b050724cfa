// Package wire is "roce wire": a cable between two interfaces that loses, delays, marks and damages chosen RoCE packets, to see what
// cards and programs make of it. The rules and what they do are those of the lab's wire; here are the interfaces.
package wire
