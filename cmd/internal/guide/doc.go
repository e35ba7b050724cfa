// Package guide keeps docs/guide.md true: each piece of Go in it is a part of this package's examples and tests,
// which run, and the commands that it names exist.
package guide
