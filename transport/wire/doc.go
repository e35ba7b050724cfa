// Package wire is what the engine and a link have in common: packets to send ([TxPacket]) and
// received ([RxPacket]), the path that packets take ([Path]), how much a link holds ([Room]), and
// the error of both about an argument ([ArgError]). So a link needs nothing of the engine.
//
// # Concurrency
//
// All of it is data. A Path belongs to the engine, but for its [LinkState], which belongs to the
// sending side of the link.
package wire
