package analyse

import (
	"github.com/goroce/goroce/ib"
)

// operation is a message, a READ or an atomic.
type operation struct {
	number   int
	kind     string
	op       ib.Operation
	read     bool
	first    ib.PSN
	end      ib.PSN // one past the last; of a message under way one past what was seen
	whole    bool   // its last packet was seen
	partial  bool   // its first packet was not: its size is not known
	done     bool
	again    bool
	anew     int // how often all of it was asked for again: nothing of it had arrived, or nothing that was kept
	longest  int // of its responses
	frame    int
	at       int64
	bytes    int64
	rkey     ib.RKey
	va       uint64
	readLen  uint32
	span     int // responses of a READ; 0 if the MTU is not known
	got      int // different ones that were seen
	nextRsp  ib.PSN
	asked    int // times that it was asked for, or a part of it
	askedAt  int64
	askFrame int
	passed   int // frame of the first answer to something later, while this was not answered
	dup      *Finding
	lost     *Finding // the last response that was lost, or overtaken
	againPSN ib.PSN   // from where it was asked for again, and when
	againAt  int64
}

// opName is what an operation is called in reports.
func opName(o ib.Opcode) string {
	info := o.Info()
	switch info.Op {
	case ib.OpSend:
		switch {
		case info.Headers&ib.HasImmDt != 0:
			return "SEND with immediate"
		case info.Headers&ib.HasIETH != 0:
			return "SEND with invalidate"
		}
		return "SEND"
	case ib.OpWrite:
		if info.Headers&ib.HasImmDt != 0 {
			return "WRITE with immediate"
		}
		return "WRITE"
	case ib.OpRead:
		return "READ"
	case ib.OpCompareSwap:
		return "CMP_SWAP"
	case ib.OpFetchAdd:
		return "FETCH_ADD"
	case ib.OpAtomicWrite:
		return "ATOMIC WRITE"
	case ib.OpFlush:
		return "FLUSH"
	}
	return "other"
}

// ownAnswer reports whether an operation is answered by itself, and not by any later ACK.
func ownAnswer(op ib.Operation) bool {
	return op == ib.OpRead || op == ib.OpCompareSwap || op == ib.OpFetchAdd || op == ib.OpAtomicWrite ||
		op == ib.OpFlush
}

func isAtomic(op ib.Operation) bool { return op == ib.OpCompareSwap || op == ib.OpFetchAdd }

// maxOperations bounds the operations of one direction that are under way.
const maxOperations = 1 << 12

// queue is a bounded queue of operations in the order of their PSNs.
type queue struct {
	ops []*operation
}

func (q *queue) push(o *operation, limit int) {
	if len(q.ops) >= limit {
		n := copy(q.ops, q.ops[limit/4:])
		clear(q.ops[n:])
		q.ops = q.ops[:n]
	}
	q.ops = append(q.ops, o)
}
