// Package about is what roce says of itself: its version, and how a shell completes its command line.
package about
