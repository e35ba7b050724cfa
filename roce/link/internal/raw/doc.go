// Package raw is what links that read and write whole Ethernet frames have in
// common: the headers of frames sent ([Header]), the parsing of frames
// received ([Parse]) and the UDP socket that holds the port ([Hold]); [Local] is all
// of the local end.
//
// # Concurrency
//
// A Header belongs to one side of a link. Hold may be used from
// anywhere until it is closed.
package raw
