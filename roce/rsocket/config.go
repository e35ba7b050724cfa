package rsocket

import (
	"time"

	"github.com/goroce/goroce/roce"
)

// Config are the properties of a connection. The zero value is librdmacm's
// defaults.
type Config struct {
	// SendBuffer and RecvBuffer are in bytes; 0 is 128 KiB. Half of the receive
	// buffer is granted to the peer at a time. (SO_SNDBUF and SO_RCVBUF of
	// librdmacm make buffers of twice what they are given.)
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are the messages that can be on their way from and
	// to this side; 0 is 384, from 16 to 65534. Every Write makes at least one.
	SendQueue, RecvQueue int
	// IOMaps is how many mappings of its memory the peer can make for us to write
	// with [Conn.WriteAt]: up to 128, or a multiple of 256 up to 32512 (others are rounded
	// down). 0 is none. What this side can map depends on the peer's.
	IOMaps int
	// KeepAlive is the time between probes, which find a peer that has vanished
	// while nothing is sent. 0 sends none.
	KeepAlive time.Duration
	// Linger bounds how long Close waits for the peer's adapter to have all data; 0 is 5 s,
	// negative does not wait: what has not arrived then may be lost.
	Linger time.Duration
	// TrafficClass is that of the packets; 0 for accepted connections is the peer's.
	TrafficClass uint8
}

// normal returns c with the defaults filled in and everything within bounds.
func (c Config) normal() Config {
	bound := func(v *int, def, low, high int) {
		if *v == 0 {
			*v = def
		}
		*v = min(max(*v, low), high)
	}
	bound(&c.SendBuffer, defaultBuffer, minSendBuffer, maxBuffer)
	bound(&c.RecvBuffer, defaultBuffer, minRecvBuffer, maxBuffer)
	bound(&c.SendQueue, defaultQueue, minQueue, maxQueue)
	bound(&c.RecvQueue, defaultQueue, minQueue, maxQueue)
	bound(&c.IOMaps, 0, 0, maxIOMaps)
	c.IOMaps = unscale(scale(c.IOMaps))
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	return c
}

// memory is what a connection holds from the start, in bytes.
func (c Config) memory() int {
	return connBytes + c.SendBuffer + c.RecvBuffer + 2*c.IOMaps*iomapBytes + (c.SendQueue+c.RecvQueue)*queueBytes
}

func (c Config) stream() streamConfig {
	return streamConfig{
		sendQueue: c.SendQueue, recvQueue: uint16(c.RecvQueue),
		sendBytes: c.SendBuffer, recvBytes: c.RecvBuffer, iomaps: c.IOMaps,
	}
}

// connParam is what librdmacm asks of a connection for rsocket: no READs, no
// atomics, retries without end when the receiver is not ready.
func connParam(private []byte) *roce.ConnParam {
	return &roce.ConnParam{PrivateData: private, FlowControl: true, RetryCount: 7, RNRRetryCount: 7}
}
