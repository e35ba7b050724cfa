// Package readme keeps README.md and docs/tools.md true: the code is the Example of this
// package, the figures are those of the committed report, and the commands exist.
package readme
