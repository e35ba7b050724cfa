// Package conform is "roce conform": it runs the project's checks against another RoCE v2
// implementation, by the packages of conformance, and prints the table.
package conform
