package verbs

import (
	"unsafe"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// Work requests and completions are declared here and in the engine, each time with the
// documentation that its readers need. They have the same layout, so that one is handed over as
// the other without copying, which the data path would feel.
//
// SGE and WC are the same structures: the compiler refuses the conversions of pointers below if the
// name, the type or the place of a field differs. SendWR and RecvWR have lists of the one SGE or
// the other, and SendWR pointers to objects of this package or of the engine; TestEngineLayout
// compares their fields. A request that names objects (namesObjects) is copied, since the engine
// wants its own.

// The sizes agree: an array of another length is of another type.
var (
	_ [unsafe.Sizeof(SendWR{})]struct{} = [unsafe.Sizeof(transport.SendWR{})]struct{}{}
	_ [unsafe.Sizeof(RecvWR{})]struct{} = [unsafe.Sizeof(transport.RecvWR{})]struct{}{}
)

// engineWCs returns completions for the engine to fill in.
func engineWCs(wcs []WC) []transport.WC {
	return unsafe.Slice((*transport.WC)(unsafe.SliceData(wcs)), len(wcs))
}

// engineSGEs returns a scatter/gather list for the engine to read.
func engineSGEs(list []SGE) []mem.SGE {
	return unsafe.Slice((*mem.SGE)(unsafe.SliceData(list)), len(list))
}

// engineSend returns a work request for the engine to read. It names no objects: the engine's
// fields for them are the nil ones of wr, or of an opcode that wr does not have.
func engineSend(wr *SendWR) *transport.SendWR { return (*transport.SendWR)(unsafe.Pointer(wr)) }

// engineRecv returns a receive work request for the engine to read.
func engineRecv(wr *RecvWR) *transport.RecvWR { return (*transport.RecvWR)(unsafe.Pointer(wr)) }

// namesObjects reports whether engineSend must not be used.
func namesObjects(wr *SendWR) bool { return wr != nil && (wr.AH != nil || wr.Opcode == WRBindMW) }

// translated is engineSend for a request that names objects: a copy with those of a shard's engine.
// The lock of the shard is held.
func translated(s *shard.Shard, wr *SendWR) transport.SendWR {
	plain := *wr
	plain.AH, plain.Bind = nil, BindMW{}
	t := *engineSend(&plain)
	t.AH = wr.AH.engine(s)
	if wr.Opcode == WRBindMW {
		b := &wr.Bind
		t.Bind = transport.BindMW{
			MW: b.MW.engine(), Region: b.MR.engine(), NewRKey: b.NewRKey, Addr: b.Addr, Length: b.Length, Access: b.Access,
		}
	}
	return t
}
