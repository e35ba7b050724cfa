// Package docs keeps README.md, docs/tools.md and docs/guide.md true. Each piece of Go in them is a
// part of this package's examples and tests, which run; the commands and make targets that they
// name exist; and the figures are those of the committed report.
package docs
