package rsocket

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// Config are the properties of a connection. The zero value is librdmacm's
// defaults, with keep-alive. What is negative or too large is an error
// that says so; what is too small is raised to the least.
type Config struct {
	// SendBuffer and RecvBuffer are in bytes, up to 1 GiB. Half of the receive buffer is granted to
	// the peer at a time. (SO_SNDBUF and SO_RCVBUF of librdmacm make buffers of twice what they are
	// given.) 0 is 64 KiB each, and up to 4 MiB while the application needs them, see the package
	// comment. A Write waits when SendBuffer is full of what the peer has no room for.
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are the messages that can be on their way from and
	// to this side; 0 is 384, from 16 up to 65534. Every Write makes at least one.
	SendQueue, RecvQueue int
	// IOMaps is how many mappings of its memory the peer can make for us to write
	// with [Conn.WriteAt]: up to 128, or a multiple of 256 up to 32512 (others are rounded
	// down). 0 is none. What this side can map depends on the peer's.
	IOMaps int
	// KeepAlive is the time after which a connection that is idle is probed, which finds
	// a peer that has vanished; 0 is 15 s, as in package net, and negative sends no probes. On a
	// simulated network, where time passes by leaps, 0 sends none either. See [Conn.SetKeepAlive].
	KeepAlive time.Duration
	// SilenceTimeout is how long the connection outlasts a peer that does not answer, while
	// something is on its way to it; then Read and Write return an error that matches
	// syscall.ETIMEDOUT. 0 is a minute, the longest is a day, and negative leaves it to the retries
	// of the protocol: 2.2 s. See [roce.ConnConfig].
	SilenceTimeout time.Duration
	// Linger is how long Close waits for the peer's adapter to have what was written; 0 is 30 s.
	// Negative: it does not wait, data is discarded, and the connection reset. See [Conn.Close] and
	// [Conn.SetLinger].
	Linger time.Duration
	// TrafficClass is that of the packets; 0 for accepted connections is the peer's.
	TrafficClass uint8

	growSend, growRecv bool // set by normal: the buffers are the defaults
}

// normal returns c with the defaults filled in and everything within bounds.
func (c Config) normal() Config {
	bound := func(v *int, def, low, high int) {
		if *v == 0 {
			*v = def
		}
		*v = min(max(*v, low), high)
	}
	if c.SilenceTimeout == 0 {
		c.SilenceTimeout = roce.DefaultSilence
	}
	c.growSend, c.growRecv = c.SendBuffer == 0, c.RecvBuffer == 0
	bound(&c.SendBuffer, defaultBuffer, minSendBuffer, maxBuffer)
	bound(&c.RecvBuffer, defaultBuffer, minRecvBuffer, maxBuffer)
	bound(&c.SendQueue, defaultQueue, minQueue, maxQueue)
	bound(&c.RecvQueue, defaultQueue, minQueue, maxQueue)
	bound(&c.IOMaps, 0, 0, maxIOMaps)
	c.IOMaps = unscale(scale(c.IOMaps))
	return c
}

// check returns an error if a value is out of bounds.
func (c *Config) check(op string) error {
	for _, v := range []struct {
		name        string
		value, most int
	}{
		{"SendBuffer", c.SendBuffer, maxBuffer}, {"RecvBuffer", c.RecvBuffer, maxBuffer},
		{"SendQueue", c.SendQueue, maxQueue}, {"RecvQueue", c.RecvQueue, maxQueue},
		{"IOMaps", c.IOMaps, maxIOMaps},
	} {
		if err := checkRange(op, v.name, v.value, v.most); err != nil {
			return err
		}
	}
	if c.SilenceTimeout > rdmacm.MaxSilenceTimeout {
		return argError(op, "SilenceTimeout", fmt.Sprintf("%v is more than %v", c.SilenceTimeout, rdmacm.MaxSilenceTimeout))
	}
	return nil
}

func checkRange(op, name string, value, most int) error {
	if value < 0 || value > most {
		return argError(op, name, fmt.Sprintf("%d is not from 0 to %d", value, most))
	}
	return nil
}

// memory is what a connection holds from the start, in bytes.
func (c Config) memory() int {
	return connBytes + c.SendBuffer + c.RecvBuffer + 2*c.IOMaps*iomapBytes
}

// grown is what it holds when its queues were full once.
func (c Config) grown() int { return c.memory() + (c.SendQueue+c.RecvQueue)*queueBytes }

func (c Config) stream() streamConfig {
	return streamConfig{
		sendQueue: c.SendQueue, recvQueue: uint16(c.RecvQueue),
		sendBytes: c.SendBuffer, iomaps: c.IOMaps,
	}
}

// connParam is what librdmacm asks of a connection for rsocket: no READs, no
// atomics, retries without end when the receiver is not ready.
func connParam(private []byte) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{PrivateData: private, FlowControl: true, RetryCount: 7, RNRRetryCount: 7}
}
