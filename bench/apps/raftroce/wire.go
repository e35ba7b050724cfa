package raftroce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/hashicorp/raft"
)

// kind is the first byte of a request.
type kind uint8

const (
	kindAppend kind = 1 + iota
	kindVote
	kindPreVote
	kindSnapshot
	kindTimeoutNow
)

// The first byte of what a follower sends.
const (
	answerOK    = 'o' // an answer
	answerError = 'e' // the text of an error
	answerMore  = 'm' // the window of the snapshot is read: fill it again
)

var errMalformed = errors.New("raftroce: a message that is not of the protocol")

// coder encodes to b, or decodes from it: one description of each message serves both, so that they
// cannot differ. Encoding only reads a message: raft sends one to several servers at once. Numbers
// are big-endian, byte strings have their length before them.
type coder struct {
	b      []byte
	decode bool
	failed bool
}

func (c *coder) u64(v *uint64) {
	if !c.decode {
		c.b = binary.BigEndian.AppendUint64(c.b, *v)
	} else if len(c.b) < 8 {
		c.failed = true
	} else {
		*v, c.b = binary.BigEndian.Uint64(c.b), c.b[8:]
	}
}

// bytes decodes to memory of its own: the ring is the peer's to write.
func (c *coder) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.u64(&n)
	switch {
	case !c.decode:
		c.b = append(c.b, *v...)
	case c.failed || n > uint64(len(c.b)):
		c.failed = true
	case n > 0:
		*v, c.b = append([]byte(nil), c.b[:n]...), c.b[n:]
	}
}

func (c *coder) bool(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.u64(&n)
	if c.decode {
		*v = n != 0
	}
}

func (c *coder) header(h *raft.RPCHeader) {
	n := uint64(h.ProtocolVersion)
	c.u64(&n)
	if c.decode {
		h.ProtocolVersion = raft.ProtocolVersion(n)
	}
	c.bytes(&h.ID)
	c.bytes(&h.Addr)
}

func (c *coder) log(l *raft.Log) {
	kind, at := uint64(l.Type), uint64(0)
	if !l.AppendedAt.IsZero() {
		at = uint64(l.AppendedAt.UnixNano())
	}
	c.u64(&l.Index)
	c.u64(&l.Term)
	c.u64(&kind)
	c.u64(&at)
	c.bytes(&l.Data)
	c.bytes(&l.Extensions)
	if c.decode {
		l.Type = raft.LogType(kind)
		if at != 0 {
			l.AppendedAt = time.Unix(0, int64(at))
		}
	}
}

// message describes a request or an answer.
func (c *coder) message(m any) {
	switch m := m.(type) {
	case *raft.AppendEntriesRequest:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.bytes(&m.Leader)
		c.u64(&m.PrevLogEntry)
		c.u64(&m.PrevLogTerm)
		c.u64(&m.LeaderCommitIndex)
		n := uint64(len(m.Entries))
		c.u64(&n)
		if c.decode {
			if n > uint64(len(c.b)) { // each has more than a byte
				c.failed = true
				return
			}
			m.Entries = nil
			logs := make([]raft.Log, n)
			for i := range logs {
				m.Entries = append(m.Entries, &logs[i])
			}
		}
		for _, l := range m.Entries {
			c.log(l)
		}
	case *raft.AppendEntriesResponse:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.u64(&m.LastLog)
		c.bool(&m.Success)
		c.bool(&m.NoRetryBackoff)
	case *raft.RequestVoteRequest:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.bytes(&m.Candidate)
		c.u64(&m.LastLogIndex)
		c.u64(&m.LastLogTerm)
		c.bool(&m.LeadershipTransfer)
	case *raft.RequestVoteResponse:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.bytes(&m.Peers)
		c.bool(&m.Granted)
	case *raft.RequestPreVoteRequest:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.u64(&m.LastLogIndex)
		c.u64(&m.LastLogTerm)
	case *raft.RequestPreVoteResponse:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.bool(&m.Granted)
	case *snapshotRequest:
		c.header(&m.RPCHeader)
		version, size := uint64(m.SnapshotVersion), uint64(m.Size)
		c.u64(&version)
		c.u64(&size)
		if c.decode {
			m.SnapshotVersion, m.Size = raft.SnapshotVersion(version), int64(size)
		}
		c.u64(&m.Term)
		c.bytes(&m.Leader)
		c.u64(&m.LastLogIndex)
		c.u64(&m.LastLogTerm)
		c.bytes(&m.Peers)
		c.bytes(&m.Configuration)
		c.u64(&m.ConfigurationIndex)
		key, length := uint64(m.window.RKey), uint64(m.window.Len)
		c.u64(&m.window.Addr)
		c.u64(&key)
		c.u64(&length)
		if c.decode {
			m.window.RKey, m.window.Len = ib.RKey(key), uint32(length)
		}
	case *raft.InstallSnapshotResponse:
		c.header(&m.RPCHeader)
		c.u64(&m.Term)
		c.bool(&m.Success)
	case *raft.TimeoutNowRequest:
		c.header(&m.RPCHeader)
	case *raft.TimeoutNowResponse:
		c.header(&m.RPCHeader)
	default:
		panic(fmt.Sprintf("raftroce: message %T", m))
	}
}

// snapshotRequest is a request to install a snapshot, and where the leader holds its next part.
type snapshotRequest struct {
	*raft.InstallSnapshotRequest
	window roce.RemoteMemory
}

// encode appends a message to b.
func encode(b []byte, m any) []byte {
	c := coder{b: b}
	c.message(m)
	return c.b
}

// decode reads a message that has to be all of b.
func decode(b []byte, m any) error {
	c := coder{b: b, decode: true}
	c.message(m)
	if c.failed || len(c.b) > 0 {
		return errMalformed
	}
	return nil
}
