package mem

import "fmt"

// Fault is the result of a check on the data path: a small integer, so that no error value is made
// per packet. FaultNone means allowed. As an error value (in a TableError) it works with errors.Is.
//
// The particular fault is for the owner only (counters, completions). A peer always gets "remote
// access error", so that it learns nothing by guessing.
type Fault uint8

// The faults, in the order of the checks.
const (
	FaultNone   Fault = iota
	FaultKey          // no such key, a stale key, or a key of the other kind
	FaultState        // the window is not bound, or the view was revoked
	FaultPD           // the key belongs to another protection domain
	FaultQP           // the type 2 window is bound on another QP
	FaultType         // the operation does not exist for this kind of object
	FaultAccess       // a right is missing
	FaultBounds       // not wholly inside the region or window
	FaultAlign        // an atomic whose virtual or real address is not 8-aligned
	FaultMemory       // the memory itself is not there: see Table.Lose

	numFaults
)

var faultNames = [numFaults]string{
	"none", "unknown key", "not bound or revoked", "wrong protection domain", "wrong QP",
	"wrong type of object", "access right missing", "out of bounds", "misaligned", "memory is not there",
}

func (f Fault) String() string {
	if f < numFaults {
		return faultNames[f]
	}
	return fmt.Sprintf("Fault(%d)", uint8(f))
}

// Error makes a Fault an error, to be wrapped in a TableError. Convert only a Fault
// other than FaultNone.
func (f Fault) Error() string { return f.String() }
