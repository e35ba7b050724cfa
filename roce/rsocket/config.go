package rsocket

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// Config has the options of a connection. The zero value has librdmacm's defaults, plus keep-alive.
// Values that are negative or too large are an error; values that are too small are raised to the
// minimum.
type Config struct {
	// SendBuffer and RecvBuffer are in bytes, up to 1 GiB. The peer is granted half of the receive
	// buffer at a time. (SO_SNDBUF and SO_RCVBUF of librdmacm allocate twice the given size.) 0 is
	// 64 KiB each, growing to 4 and 8 MiB while the application needs it, see the package comment.
	// A Write waits when SendBuffer is full of data that the peer has no room for.
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are the numbers of messages that can be on their way from and to this
	// side; 0 is 384, from 16 to 65534. Every Write makes at least one.
	SendQueue, RecvQueue int
	// IOMaps is how many mappings of its memory the peer can make for us to write with
	// [Conn.WriteAt]: up to 128, or a multiple of 256 up to 32512 (others are rounded down). 0 is
	// none. The peer's IOMaps limits the mappings of this side.
	IOMaps int
	// KeepAlive is the time after which an idle connection is probed, which finds a peer that has
	// vanished; 0 is 15 s, as in package net, and negative sends no probes. On a simulated network
	// whose time leaps, 0 sends none either. See [Conn.SetKeepAlive].
	KeepAlive time.Duration
	// SilenceTimeout is how long the connection outlasts a silent peer while data is on its way to
	// it; then Read and Write return an error that matches syscall.ETIMEDOUT. 0 is a minute, the
	// longest is a day, and negative leaves it to the retries of the protocol: 2.2 s. See
	// [roce.ConnConfig].
	SilenceTimeout time.Duration
	// Linger is how long Close waits until the peer's adapter has all written data; 0 is 30 s. If
	// negative, Close does not wait, discards data, and resets the connection. See [Conn.Close] and
	// [Conn.SetLinger].
	Linger time.Duration
	// TrafficClass is that of the packets; for accepted connections 0 means the peer's.
	TrafficClass uint8

	growSend, growRecv bool // set by normal: the size is the default, and may grow
}

// normal returns c with the defaults filled in and all values within bounds.
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
		return argError(op, "SilenceTimeout",
			fmt.Sprintf("%v is more than %v", c.SilenceTimeout, rdmacm.MaxSilenceTimeout))
	}
	return nil
}

func checkRange(op, name string, value, most int) error {
	if value < 0 || value > most {
		return argError(op, name, fmt.Sprintf("%d is not from 0 to %d", value, most))
	}
	return nil
}

// memory returns the bytes that a connection holds from the start.
func (c Config) memory() int {
	return connBytes + c.SendBuffer + c.RecvBuffer + 2*c.IOMaps*iomapBytes
}

// grown returns the bytes that it holds once its queues have been full.
func (c Config) grown() int { return c.memory() + (c.SendQueue+c.RecvQueue)*queueBytes }

func (c Config) stream() streamConfig {
	return streamConfig{
		sendQueue: c.SendQueue, recvQueue: uint16(c.RecvQueue),
		sendBytes: c.SendBuffer, iomaps: c.IOMaps,
	}
}

// connParam returns the parameters that librdmacm uses for rsocket: no READs, no atomics, retries
// without end while the receiver is not ready.
func connParam(private []byte) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{PrivateData: private, FlowControl: true, RetryCount: 7, RNRRetryCount: 7}
}
