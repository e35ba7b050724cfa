package raftroce

import (
	"context"
	"net"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
	"github.com/hashicorp/raft"
)

// StreamLayer is raft.StreamLayer on rsockets, for raft.NewNetworkTransport. Its Listener is what
// rsocket.Listen returns.
type StreamLayer struct{ net.Listener }

// Dial connects to another server.
func (StreamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return rsocket.DialContext(ctx, "tcp", string(address))
}
