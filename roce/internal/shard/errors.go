package shard

import (
	"io/fs"
	"net"
)

// ErrClosed is what every call on a closed device returns: it is verbs.ErrClosed.
var ErrClosed error = closed{}

type closed struct{}

func (closed) Error() string { return "roce: closed" }

// Is finds the names that others have for it.
func (closed) Is(target error) bool { return target == net.ErrClosed || target == fs.ErrClosed }
