// Package auth has the two ends of a [roce.Conn] prove to each other that they know a secret,
// before anything else is sent: RoCE itself knows no identities, and RDMA-CM tells addresses that
// anybody can write.
//
//	client: err := auth.Client(ctx, c, auth.Key{ID: "cache-7", Secret: secret})
//	server: id, err := auth.Server(ctx, c, func(id string) []byte { return secrets[id] })
//
// [Handler] puts the server's half before a handler of [roce.Server]. Call them first: memory that
// was shared before is the peer's already.
//
// # Protocol
//
// Three messages of the connection, and a fourth that tells the client that it was let in:
//
//	client  1  magic, version 1, 32 random bytes, the key's ID
//	server  2  32 random bytes, HMAC(secret, "server" || transcript)
//	client  3  HMAC(secret, "client" || transcript)
//	server  4  one byte: 1
//
// The random bytes are those of the device (verbs.Config.Rand): crypto/rand.Reader, or the seed on
// a simulated network. HMAC is HMAC-SHA-256. The transcript is messages 1 and the random half of 2,
// with their lengths, and what names the connection on both sides: the two addresses and ports, and
// the two queue pair numbers, the client's first.
//
// # What it protects from
//
//   - Somebody who does not know the secret, and connects, or listens in the other's place: no MAC.
//   - Replay: each MAC has the random bytes of both sides.
//   - Reflection: the two MACs have different labels, so that what one role says is of no use in
//     the other.
//   - Relay: an attacker with a connection to each of the two cannot pass the messages on: the
//     queue pairs that the two see are others.
//   - Guessing which IDs there are: an unknown one is answered as any other, with a MAC of a random
//     secret. Secrets are compared in constant time.
//
// # What it does not
//
// It proves who is there when the connection begins. It does not encrypt, and does not protect what
// follows: who can put packets into the network between the two, and sees their traffic, can read
// everything, and write messages and memory in their names. For that use TLS over roce/rsocket,
// IPsec, MACsec or WireGuard. Secrets must be random, of 16 bytes at least: who records an exchange
// can try passwords against it. See docs/security.md.
package auth
