// Package dump is "roce dump": the RoCE v2 packets of an interface or of a capture, a line each,
// with all headers.
package dump
