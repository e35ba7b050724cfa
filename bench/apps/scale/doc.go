// Package scale runs the applications of this module on many hosts of a simulated network: a fat
// tree, in virtual time. It tells how long an all-reduce takes, or a commit of one of many
// replicated logs, what the network loses, and how long the simulation itself needs as hosts are
// added.
package scale
