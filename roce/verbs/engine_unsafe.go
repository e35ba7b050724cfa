package verbs

import (
	"unsafe"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// Work requests and completions are declared both here and in the engine, each time with the
// documentation that their readers need. They have the same layout, so they can be converted
// without copying, which would slow the data path.
//
// SGE and WC are the same structures: the compiler refuses the pointer conversions below if the
// name, type or place of a field differs. SendWR and RecvWR have lists of the one SGE or the other,
// and SendWR has pointers to objects of this package or of the engine; TestEngineLayout compares
// their fields. A request that names objects (namesObjects) is copied, because the engine needs its
// own.

// The sizes agree: arrays of different lengths have different types.
var (
	_ [unsafe.Sizeof(SendWR{})]struct{} = [unsafe.Sizeof(transport.SendWR{})]struct{}{}
	_ [unsafe.Sizeof(RecvWR{})]struct{} = [unsafe.Sizeof(transport.RecvWR{})]struct{}{}
)

// engineWCs returns completions for the engine to fill in.
func engineWCs(wcs []WC) []transport.WC {
	return unsafe.Slice((*transport.WC)(unsafe.SliceData(wcs)), len(wcs))
}

// engineSend returns a work request for the engine to read. wr names no objects: the engine's
// fields for them are nil, or belong to another opcode.
func engineSend(wr *SendWR) *transport.SendWR { return (*transport.SendWR)(unsafe.Pointer(wr)) }

// engineRecv returns a receive work request for the engine to read.
func engineRecv(wr *RecvWR) *transport.RecvWR { return (*transport.RecvWR)(unsafe.Pointer(wr)) }

// namesObjects reports whether a request names objects, for which engineSend must not be used.
func namesObjects(wr *SendWR) bool { return wr != nil && (wr.AH != nil || wr.Opcode == WRBindMW) }

// translated is engineSend for a request that names objects: a copy with the objects of a shard's
// engine. The lock of the shard is held.
func translated(s *shard.Shard, wr *SendWR) transport.SendWR {
	plain := *wr
	plain.AH, plain.Bind = nil, BindMW{}
	t := *engineSend(&plain)
	t.AH = wr.AH.engine(s)
	if wr.Opcode == WRBindMW {
		b := &wr.Bind
		t.Bind = transport.BindMW{
			MW: b.MW.engine(), Region: b.MR.engine(), NewRKey: b.NewRKey, Addr: b.Addr, Length: b.Length,
			Access: b.Access,
		}
	}
	return t
}
