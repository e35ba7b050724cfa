// Package auth makes the two ends of a [roce.Conn] prove to each other that they know a secret,
// before anything else is sent: RoCE itself has no identities, and the addresses in RDMA-CM are
// easily forged.
//
//	client: err := auth.Client(ctx, c, auth.Key{ID: "cache-7", Secret: secret})
//	server: id, err := auth.Server(ctx, c, func(id string) []byte { return secrets[id] })
//
// [Handler] puts the server's half before a handler of [roce.Server]. Call them first: the peer can
// already use memory that was shared before.
//
// # Protocol
//
// Three messages of the connection, and a fourth that tells the client that it was admitted:
//
//	client  1  magic, version 1, 32 random bytes, the key's ID
//	server  2  32 random bytes, HMAC(secret, "server" || transcript)
//	client  3  HMAC(secret, "client" || transcript)
//	server  4  one byte: 1
//
// The random bytes come from the device (verbs.Config.Rand): crypto/rand.Reader, or the seed on a
// simulated network. HMAC is HMAC-SHA-256. The transcript is message 1 and the random half of
// message 2, with their lengths, and the identity of the connection, equal on both sides: the two
// addresses and ports, and the two queue pair numbers, the client's first.
//
// # What it protects from
//
//   - An attacker without the secret that connects, or listens in the other's place: it cannot make
//     a MAC.
//   - Replay: each MAC covers the random bytes of both sides.
//   - Reflection: the two MACs have different labels, so the MAC of one role is useless in the
//     other.
//   - Relay: an attacker with a connection to each of the two cannot pass the messages on, because
//     the two see different queue pairs.
//   - Guessing IDs: an unknown ID gets the usual answer, with a MAC of a random secret. Secrets are
//     compared in constant time.
//
// # What it does not
//
// It proves identity when the connection begins. It does not encrypt, and does not protect what
// follows: an attacker that sees the traffic and can inject packets into the network between the
// two can read everything, and write messages and memory in their names. Against that use TLS over
// roce/rsocket, IPsec, MACsec or WireGuard. Secrets must be random, of at least 16 bytes: a
// recorded exchange allows trying passwords offline. See docs/security.md.
package auth
