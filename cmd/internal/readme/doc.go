// Package readme keeps README.md true: its code is the Example of this
// package, and the commands that it names exist.
package readme
