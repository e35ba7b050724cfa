package xdp

import "fmt"

// DetachedError is the error of a link, from Wait and Recv, that is no longer attached to any
// interface. It is permanent: open another link.
type DetachedError struct {
	Interface string // the last one
}

func (e *DetachedError) Error() string {
	return fmt.Sprintf("xdp link: the program is not attached to %s any more: the interface was removed, or somebody has detached the program", e.Interface)
}

// ringError says that the positions of a ring are impossible. It is fatal for the link.
type ringError struct {
	what      string
	has, size uint32
}

func (e *ringError) Error() string {
	return fmt.Sprintf("xdp link: %d entries came up in the %s ring, and the ring holds %d", e.has, e.what, e.size)
}
