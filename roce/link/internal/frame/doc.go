// Package frame writes and reads the headers of RoCE v2 packets, from Ethernet through UDP, for
// links that handle whole frames: [Header] is the template of a flow's headers, [Parse] parses a
// received frame.
//
// # Concurrency
//
// A Header belongs to one side of a link.
package frame
