package roce

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// ConnState is the state of a connection.
type ConnState uint8

// The states of a connection. Those after ConnOpen are final.
const (
	ConnOpen       ConnState = iota
	ConnPeerClosed           // the peer has closed it; messages may be left to receive
	ConnFailed               // an operation has failed, or the peer does not answer
	ConnClosed               // by Close
)

func (s ConnState) String() string {
	if names := [...]string{"open", "peer closed", "failed", "closed"}; int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("ConnState(%d)", uint8(s))
}

// ConnStats tells how a connection has fared ([Conn.Stats]). Sent and Received leave out what the
// application posts to the queue pair itself; all else covers the whole queue pair.
type ConnStats struct {
	State ConnState
	Err   error // why a connection has failed

	SentMessages, SentBytes         uint64 // SENDs, by whatever call, including those under way
	ReceivedMessages, ReceivedBytes uint64 // including those that wait for Recv
	WrittenBytes, ReadBytes         uint64 // of the peer's memory, by WRITEs, READs and atomics
	Operations                      uint64 // of this side, of any kind, including probes
	InProgress                      int    // of these, those not complete
	Waiting                         int    // messages that wait for Recv

	RetransmittedPkts uint32        // modulo 2^32; some only ask for an acknowledgement that nobody hurried
	Timeouts          uint32        // ACK timeouts
	SmoothedRTT       time.Duration // round-trip time of requests; 0 if none was measured
	RTTVariance       time.Duration
}

// traffic counts what a connection moves. c.mu guards it.
type traffic struct {
	sentMessages, sentBytes, recvMessages, recvBytes, written, read, ops uint64
}

// sent counts a posted work request.
func (t *traffic) sent(wr *verbs.SendWR) {
	n := payload(wr)
	t.ops++
	switch wr.Opcode {
	case verbs.WRSend, verbs.WRSendImm, verbs.WRSendInv:
		t.sentMessages++
		t.sentBytes += n
	case verbs.WRRead, verbs.WRFetchAdd, verbs.WRCompareSwap:
		t.read += n
	case verbs.WRWrite, verbs.WRWriteImm, verbs.WRAtomicWrite:
		t.written += n
	}
}

// received counts a message.
func (t *traffic) received(wc *verbs.WC) {
	t.recvMessages++
	t.recvBytes += uint64(wc.ByteLen)
}

// Stats returns a snapshot. It takes in what has arrived, and does not wait. For a closed
// connection it returns the figures at Close; for a zero Conn, zeros and ConnClosed.
func (c *Conn) Stats() ConnStats {
	if c.s == nil {
		return ConnStats{State: ConnClosed}
	}
	qp := c.qp.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.drain(c.polled)
		c.last = qp
	}
	s := ConnStats{
		SentMessages: c.traffic.sentMessages, SentBytes: c.traffic.sentBytes,
		ReceivedMessages: c.traffic.recvMessages, ReceivedBytes: c.traffic.recvBytes,
		WrittenBytes: c.traffic.written, ReadBytes: c.traffic.read,
		Operations: c.traffic.ops, InProgress: c.posted, Waiting: len(c.inbox),
		RetransmittedPkts: c.last.RetransmittedPkts, Timeouts: c.last.Timeouts,
		SmoothedRTT: c.last.SmoothedRTT, RTTVariance: c.last.RTTVariance,
	}
	switch {
	case c.closed:
		s.State = ConnClosed
	case !c.flushed:
	case c.failure != nil:
		s.State, s.Err = ConnFailed, c.failure
	case c.peerGone:
		s.State = ConnPeerClosed
	default:
		s.State, s.Err = ConnFailed, c.closeErr()
		if c.peerGone { // closeErr has looked for its end
			s.State, s.Err = ConnPeerClosed, nil
		}
	}
	return s
}
