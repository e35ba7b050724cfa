// Package edge defines what the engine and a link share: packets to send ([TxPacket]) and received
// ([RxPacket]), the path of packets ([Path]), the room of a link ([Room]), and the common error
// about an argument ([ArgError]). So a link does not depend on the engine.
//
// # Concurrency
//
// All of it is data. The engine owns a Path, except for its [LinkState], which belongs to the
// sending side of the link.
package edge
